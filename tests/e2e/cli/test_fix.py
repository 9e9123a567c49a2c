"""`capuchin fix`: a local repository and an issue file in; a patch, a report and a bundle out."""

import argparse
import asyncio
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli import fix as cli_fix
from bot.cli import local_run
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from pipeline.bundle import read_bundle
from pipeline.replay import NotInBundle, replay
from pipeline.store import DirStore, digest
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix, SharedRun, unpack_bundle
from tests.support.command_line import done, here
from tests.support.data import local_git

REACHES = f"""<script>
from pip._vendor import requests

try:
    requests.get("https://rates.example.org/eur")
except requests.ConnectionError as error:
    print(error)
{shop.SCRIPT.partition("<script>")[2]}"""
"""Asks a service first, which no execution can reach."""


@pytest.fixture(scope="module")
def reaped() -> list[int]:
    """How many containers a worker on the same machine took in each sweep beside `usual`."""
    return []


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory, reaped: list[int]) -> SharedRun:
    """A run that finds the fix, while a worker on the same machine sweeps."""

    async def make(local: LocalFix) -> int:
        workers = build_engine(local.settings)
        fixing = asyncio.create_task(local.fix("--json"))
        try:
            while not fixing.done():
                reaped.append(await workers.reap(live_runs=[]))
                await asyncio.wait([fixing], timeout=0.05)
        finally:
            await fixing
            await workers.close()
        return fixing.result()

    return SharedRun(tmp_path_factory.mktemp("usual"), make)


@pytest.fixture(scope="module")
def outward(tmp_path_factory: pytest.TempPathFactory) -> SharedRun:
    """A run with a model elsewhere, a script that asks a service, and the packages of a day."""

    async def make(local: LocalFix) -> int:
        script = RecordedAnswer(call="testing", turn=0, reply=REACHES)
        local.llm.recording = shop.answers(script)
        return await local.fix("--as-of", "2023-03-01", settings=elsewhere(local.settings))

    return SharedRun(tmp_path_factory.mktemp("outward"), make)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> SharedRun:
    """A run whose model refuses to write the regression test."""

    async def make(local: LocalFix) -> int:
        local.llm.recording = shop.answers(RecordedAnswer(call="reproduction", status=401))
        return await local.fix()

    return SharedRun(tmp_path_factory.mktemp("stopped"), make)


def elsewhere(settings: Settings) -> Settings:
    """With an address of the model that leads to it by a name."""
    url = settings.anthropic_base_url.replace("127.0.0.1", "127.1")
    return replace(settings, anthropic_base_url=url)


async def test_a_fix_leaves_its_patch_test_report_and_bundle(usual: SharedRun) -> None:
    run = await usual.ended()
    assert run.code == local_run.FIXED
    report = json.loads(run.stdout)
    assert (report["outcome"], report["base_commit"]) == ("fix", run.base)
    events = [json.loads(line) for line in run.stderr.splitlines()]
    stages = [each["stage"] for each in events if each["event"] == "stage"]
    assert stages in (
        ["environment", "edits", "choice", "reproduction"],
        ["environment", "context", "edits", "choice", "reproduction"],
    ), "scripts are written while files are read"
    assert max(each["dollars"] for each in events if each["event"] == "progress") > 0
    assert events[-1].items() >= {
        "event": "end", "exit_code": 0, "outcome": "fix", "dollars": report["dollars"],
        "out": str(run.out),
    }.items()  # fmt: skip
    assert (report["title"], report["recorded"]) == ("Make total() add", True)
    assert report == json.loads((run.out / "report.json").read_text())
    assert report["code_sent_to"] == []
    assert report["reproduction"]["before"]["exit_code"] != 0
    assert report["reproduction"]["after"]["exit_code"] == 0
    assert "+    return a + b" in (run.out / "patch.diff").read_text()
    assert "def test_total_adds" in (run.out / "reproduction_test.py").read_text()
    assert "+def test_total_adds" in (run.out / "test.diff").read_text()
    text = (run.out / "report.md").read_text()
    assert text.startswith("# Make total() add\n")
    assert "commit" not in text, "none was made"
    assert run.git_status == ""


async def test_where_code_was_sent_is_named_unless_it_is_certain_to_be_ones_own(
    local_fix: LocalFix, outward: SharedRun
) -> None:
    run = await outward.ended()
    assert run.code == local_run.FIXED
    assert json.loads((run.out / "report.json").read_text())["code_sent_to"] == ["127.1"]
    assert "`127.1`" in (run.out / "report.md").read_text()
    local_fix.continue_run(run)
    declared = replace(elsewhere(local_fix.settings), own_hosts="vllm, 127.1")
    assert await local_fix.fix("--as-of", "2023-03-01", settings=declared) == local_run.FIXED
    assert json.loads((local_fix.out / "report.json").read_text())["code_sent_to"] == []


async def test_what_tests_tried_to_reach_is_reported(outward: SharedRun) -> None:
    run = await outward.ended()
    assert run.code == local_run.FIXED
    *_, verdict, apply, report_line = run.stderr.splitlines()
    assert "Make total() add" in verdict
    assert "$0.0" in verdict
    assert re.search(r"\d+% likely", verdict)
    assert str(run.out / "report.md") in report_line
    # The line that it prints can be copied as it is.
    command = shlex.split(apply.partition(": ")[2])
    assert command[:2] == ["git", "apply"]
    subprocess.run([*command[:2], "--check", *command[2:]], cwd=run.repo, check=True)
    report = json.loads((run.out / "report.json").read_text())
    assert report["blocked"] == {"hosts": ["rates.example.org"], "more": 0, "nameless": False}
    limits = (run.out / "report.md").read_text().partition("## Limits")[2]
    assert "`rates.example.org`" in limits
    packed = json.loads(unpack_bundle(run.out / "run.tar.zst")["report.json"])
    assert packed["blocked"] == report["blocked"]


async def test_packages_are_installed_as_of_the_day_that_is_asked_for(outward: SharedRun) -> None:
    run = await outward.ended()
    assert run.code == local_run.FIXED
    health = json.loads((run.out / "health.json").read_text())
    # A few days later: what was new that day may have been mended since.
    assert any("--exclude-newer 2023-0" in command for command in health["commands"])
    assert all(command.startswith("uv pip install ") for command in health["commands"])
    assert not re.search(r"/tmp/|/opt/|/testbed", " ".join(health["commands"]))
    assert "packages as of 2023-0" in health["attempts"][0]["summary"]


async def test_the_bundle_holds_every_document_and_its_digest(usual: SharedRun) -> None:
    run = await usual.ended()
    files = unpack_bundle(run.out / "run.tar.zst")
    manifest = json.loads(files.pop("manifest.json"))
    assert manifest["files"] == {n: hashlib.sha256(d).hexdigest() for n, d in files.items()}
    assert manifest["format"] == 2
    assert {"patch.diff", "issue.json", "store/testing/0.json", "store/ledger.json"} <= set(files)
    documents = read_bundle(run.out / "run.tar.zst").documents
    found = await replay(documents, None)
    assert (found.equal, found.judged.chosen and found.judged.chosen.sample) == (True, 1)
    damaged = {n: b"{}" if n.startswith("reports/") else d for n, d in documents.items()}
    with pytest.raises(NotInBundle):
        await replay(damaged, None)


async def test_the_report_says_what_the_time_went_into(usual: SharedRun) -> None:
    run = await usual.ended()
    seconds = json.loads((run.out / "report.json").read_text())["seconds"]
    whole, processor = seconds.pop("whole"), seconds.pop("processor")
    assert min(processor["edits script"], processor["edits tests"]) > 0
    assert all(0 < seconds[name] < whole for name in ("models", "tests", "scripts"))
    assert seconds.keys() == {"models", "tests", "scripts", "commands", "environment"}


async def test_started_again_it_asks_no_model_and_ends_alike(
    local_fix: LocalFix, usual: SharedRun
) -> None:
    run = await usual.ended()
    local_fix.continue_run(run)
    local_git.committed(local_fix.repo, {"new.py": b"x = 1\n"})
    assert "finished run" not in (await local_fix.end(local_run.FIXED)).err
    assert (local_fix.out / "report.json").read_bytes() == (run.out / "report.json").read_bytes()
    assert local_fix.llm.requests == []
    # What comes too late for it is said.
    said = (await local_fix.end(local_run.FIXED, "--samples", "7")).err
    assert ("finished run" in said, "(samples)" in said) == (True, True)


async def test_a_failed_run_goes_on_where_it_stopped(
    local_fix: LocalFix, stopped: SharedRun
) -> None:
    run = await stopped.ended()
    assert run.code == local_run.FAILED
    assert "--out" in run.stderr
    local_fix.continue_run(run)
    assert await local_fix.fix() == local_run.FIXED
    assert [question.call for question in local_fix.llm.requests] == ["reproduction"]
    seconds = json.loads((local_fix.out / "report.json").read_text())["seconds"]
    assert seconds["scripts"] > 0, "those of the first start: the second runs none"


async def test_scores_by_revisions_are_known_where_all_of_them_were_voted_on(
    local_fix: LocalFix,
) -> None:
    """CodeMonkeys, Figure 5: the first machine mends its edit, the second does not."""
    local_fix.commit(shop.FILES)
    local_fix.llm.recording = shop.answers(
        RecordedAnswer(call="editing/0", turn=1, reply=shop.RIGHT),
        RecordedAnswer(call="editing/1", turn=0, reply=shop.edit("    return b - a")),
    )
    runs = local_fix.out.parent
    row = {"instance_id": "out", "repo": "a/b", "problem_statement": shop.BODY, "patch": ""}
    (runs / "instances.jsonl").write_text(json.dumps(row) + "\n")
    (runs / "labels.json").write_text('{"out": {"0": [1]}}')
    evaluate = ["evaluate", str(runs / "instances.jsonl"), "--runs", str(runs)]

    assert await local_fix.fix() == local_run.FIXED
    found = (await asyncio.to_thread(done, *evaluate, "--json")).json
    assert found["serial_voted"] == {}
    (local_fix.out / "run/outcome.json").unlink()
    assert await local_fix.fix("--set", "all_revisions=true") == local_run.FIXED
    found = (await asyncio.to_thread(done, *evaluate, "--json")).json
    assert found["serial"] == {"1 sample": [0, 50], "2 samples": [0, 100]}
    assert found["serial_voted"] == {"1 sample": [0, 50], "2 samples": [0, 100]}
    await asyncio.to_thread(done, *evaluate, "--out", str(runs / "told"))
    assert "<svg" in (runs / "told/revisions_voted.svg").read_text()
    assert "## Majority voting" in (runs / "told/report.md").read_text()


async def test_a_worker_on_the_same_machine_does_not_take_its_containers(
    usual: SharedRun, reaped: list[int]
) -> None:
    assert (await usual.ended()).code == local_run.FIXED
    assert reaped
    assert set(reaped) == {0}


async def test_what_a_run_took_and_cost_is_remembered_for_the_next(usual: SharedRun) -> None:
    run = await usual.ended()
    known = DirStore(run.data / "fixes")
    found = await known.load(digest(str(run.repo)), cli_fix.LatestRuns)
    assert found is not None
    assert [len(found.seconds), len(found.dollars)] == [1, 1]
    assert found.seconds[0] > 0


async def test_the_way_of_choosing_and_the_threshold_can_be_given(
    local_fix: LocalFix, stopped: SharedRun
) -> None:
    local_fix.continue_run(await stopped.ended())
    voting = ("--set", "selection=voting", "--set")
    assert await local_fix.fix(*voting, "confidence=1") == local_run.NO_FIX
    report = json.loads((local_fix.out / "report.json").read_text())
    assert (report["reason"], report["suspects"]) == ("not sure enough", ["shop/till.py"])
    assert "sys.exit(0 if total(1, 2) == 3 else 2)" in report["script"]
    text = (local_fix.out / "report.md").read_text()
    assert report["script"] in text
    assert ("label" in text, "`--out`" in text) == (False, True)
    # The same run, less cautious: only the regression test is left to be asked for.
    asked = len(local_fix.llm.requests)
    assert await local_fix.fix(*voting, "confidence=0.1") == local_run.FIXED
    assert [q.call for q in local_fix.llm.requests[asked:]] == ["reproduction"]
    report = json.loads((local_fix.out / "report.json").read_text())
    assert (report["method"], report["confidence"] > 0.1) == ("voting", True)
    assert report["order"] == ["A", "B"]
    unedited, right, wrong = report["table"]
    assert (unedited["support"], wrong["support"], right["support"]) == (None, 1, 1)
    assert (wrong["broken"], right["broken"], right["chosen"]) == (None, [], True)
    assert right["score"] > wrong["score"]
    kept = unpack_bundle(local_fix.out / "run.tar.zst")
    assert json.loads(kept["store/verdict/voting.json"])["record"]["order"] == [1, 0]


async def test_the_repository_asks_for_a_search_and_the_command_line_overrides_it(
    tmp_path: Path,
) -> None:
    llm = RecordedServer(shop.answers(*shop.SEARCHING, shop.RIGHT_AT_ONCE))
    async with llm.serve() as url:
        await check_both(LocalFix(tmp_path, llm, url))


async def check_both(local_fix: LocalFix) -> None:
    config = shop.FILES[".github/capuchin.yml"] + "strategy: search\n"
    local_fix.commit({**shop.FILES, ".github/capuchin.yml": config})
    assert await local_fix.fix("--strategy", "samples", "--samples", "1") == local_run.FIXED
    assert not any(asked.call.startswith("understanding") for asked in local_fix.llm.requests)
    local_fix.out = local_fix.out.with_name("searched")
    assert await local_fix.fix() == local_run.FIXED
    report = json.loads((local_fix.out / "report.json").read_text())
    found = report["context"]["search"]["located"]  # without a reward model, all answers go on
    assert [one["places"][0]["scope"] for one in found] == ["def total(a, b):", "def count(items):"]
    assert "| 1 | `shop/till.py:2` | it subtracts |  |" in (local_fix.out / "report.md").read_text()
    assert {"understanding/0.json", "localisation/1.json", "search/result.json"} <= set(
        read_bundle(local_fix.out / "run.tar.zst").documents
    )


ROOT = Path(__file__).parents[3]
ALONE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
UP = 'ip link set lo up && exec "$0" "$@"'


def test_a_whole_run_is_made_without_a_route_out(tmp_path: Path) -> None:
    """Docker is reached by its local socket, and runs the code without a network as always."""
    if not Path("/var/run/docker.sock").exists():
        pytest.skip("Docker has no local socket here.")
    try:
        tried = subprocess.run([*ALONE, "sh", "-c", UP, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("There is no `unshare` here to make a network namespace with.")
    if tried.returncode:
        pytest.skip(f"No network namespace can be made here: {tried.stderr.decode()[-200:]}")
    ended = subprocess.run(
        [*ALONE, "sh", "-c", UP, sys.executable, "-m", "tests.e2e.cli.local_only", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == local_run.FIXED, ended.stderr.decode()
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["code_sent_to"] == []
    stages = {account["stage"] for account in report["accounts"]}
    assert {"relevance", "understanding", "localisation", "prm", "editing"} <= stages
    assert report["context"]["search"]["notes"] == []


def test_ctrl_c_ends_as_shells_expect_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_fix, "run_command", interrupt)
    ended = here("fix", "https://github.com/acme/shop/issues/1")
    assert (ended.code, "--out" in ended.err) == (130, True)
