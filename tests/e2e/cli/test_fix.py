"""`capuchin fix`: a local repository and an issue file in; a patch, a report and a bundle out."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard

from bot.cli import local_run, main
from bot.recorded.recording import RecordedAnswer
from bot.runner.sandbox import build_engine
from pipeline.bundle.read import read_bundle
from pipeline.bundle.replay import replay
from pipeline.records import FORMAT
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix
from tests.support.data import local_git

REACHES = f"""<script>
from pip._vendor import requests

try:
    requests.get("https://rates.example.org/eur")
except requests.ConnectionError as error:
    print(error)
{shop.SCRIPT.partition("<script>")[2]}"""
"""Asks a service first, which no execution can reach."""


def unpacked(bundle: Path) -> dict[str, bytes]:
    raw = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(bundle.read_bytes())).read()
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {m.name: f.read() for m in tar if (f := tar.extractfile(m)) is not None}


async def test_a_fix_leaves_its_patch_test_report_and_bundle(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    base = local_fix.commit(shop.FILES)
    assert await local_fix.fix("--json") == local_run.FIXED
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["outcome"], report["base_commit"]) == ("fix", base)
    events = [json.loads(line) for line in err.splitlines()]
    stages = [each["stage"] for each in events if each["event"] == "stage"]
    assert stages in (
        ["environment", "edits", "choice", "reproduction"],
        ["environment", "context", "edits", "choice", "reproduction"],
    ), "scripts are written while files are read"
    assert max(each["dollars"] for each in events if each["event"] == "progress") > 0
    assert events[-1].items() >= {
        "event": "end", "exit_code": 0, "outcome": "fix", "dollars": report["dollars"],
        "out": str(local_fix.out),
    }.items()  # fmt: skip
    assert (report["title"], report["recorded"]) == ("Make total() add", True)
    assert report == json.loads((local_fix.out / "report.json").read_text())
    assert report["code_sent_to"] == []
    assert report["reproduction"]["before"]["exit_code"] != 0
    assert report["reproduction"]["after"]["exit_code"] == 0
    assert "+    return a + b" in (local_fix.out / "patch.diff").read_text()
    assert "def test_total_adds" in (local_fix.out / "reproduction_test.py").read_text()
    assert "+def test_total_adds" in (local_fix.out / "test.diff").read_text()
    text = (local_fix.out / "report.md").read_text()
    assert text.startswith("# Make total() add\n")
    assert "I wrote 2 edits and 1 script for the issue, and ran every script on every edit." in text
    assert (
        "It passes the one script that shows the issue; the other edit is written differently"
        in text
    )
    assert "commit" not in text, "none was made"
    assert "served on the operator's own machines or network, and I sent code nowhere else." in text
    assert local_git.git(local_fix.repo, "status", "--porcelain") == ""


async def test_where_code_was_sent_is_named_unless_it_is_certain_to_be_ones_own(
    local_fix: LocalFix,
) -> None:
    local_fix.commit(shop.FILES)
    url = local_fix.settings.anthropic_base_url.replace(
        "127.0.0.1", "127.1"
    )  # leads there, by a name
    named = replace(local_fix.settings, anthropic_base_url=url)
    assert await local_fix.fix(settings=named) == local_run.FIXED
    assert json.loads((local_fix.out / "report.json").read_text())["code_sent_to"] == ["127.1"]
    assert "\n\nCode was sent to `127.1`.\n" in (local_fix.out / "report.md").read_text()
    declared = replace(named, own_hosts="vllm, 127.1")
    assert await local_fix.fix(settings=declared) == local_run.FIXED
    assert json.loads((local_fix.out / "report.json").read_text())["code_sent_to"] == []


async def test_what_tests_tried_to_reach_is_reported(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.llm.recording = shop.answers(RecordedAnswer(call="testing", turn=0, reply=REACHES))
    local_fix.commit(shop.FILES)
    assert await local_fix.fix() == local_run.FIXED
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"Proven fix: Make total\(\) add, \d+ (second|minute)s?, \$0\.0\d at ", last)
    report = json.loads((local_fix.out / "report.json").read_text())
    assert report["blocked"] == {"hosts": ["rates.example.org"], "more": 0, "nameless": False}
    limits = (local_fix.out / "report.md").read_text().partition("## Limits")[2]
    assert (
        "- According to their output, the tests could not reach `rates.example.org`: the "
        "sandbox has no network."
    ) in limits
    packed = json.loads(unpacked(local_fix.out / "run.tar.zst")["report.json"])
    assert packed["blocked"] == report["blocked"]


async def test_packages_are_installed_as_of_the_day_that_is_asked_for(local_fix: LocalFix) -> None:
    local_fix.commit(shop.FILES)
    assert await local_fix.fix("--as-of", "2023-03-01") == local_run.FIXED
    health = json.loads((local_fix.out / "health.json").read_text())
    # A few days later: what was new that day may have been mended since.
    assert any("--exclude-newer 2023-0" in command for command in health["commands"])
    assert all(command.startswith("uv pip install ") for command in health["commands"])
    assert not re.search(r"/tmp/|/opt/|/testbed", " ".join(health["commands"]))
    assert "packages as of 2023-0" in health["attempts"][0]["summary"]


async def test_the_bundle_holds_every_document_and_its_digest(local_fix: LocalFix) -> None:
    local_fix.commit(shop.FILES)
    await local_fix.fix()
    files = unpacked(local_fix.out / "run.tar.zst")
    manifest = json.loads(files.pop("manifest.json"))
    assert manifest["files"] == {n: hashlib.sha256(d).hexdigest() for n, d in files.items()}
    assert manifest["format"] == 2
    assert {"patch.diff", "issue.json", "store/testing/0.json", "store/ledger.json"} <= set(files)
    found = await replay(read_bundle(local_fix.out / "run.tar.zst").documents, None)
    assert (found.equal, found.judged.chosen and found.judged.chosen.sample) == (True, 1)


async def test_started_again_it_asks_no_model_and_ends_alike(local_fix: LocalFix) -> None:
    local_fix.commit(shop.FILES)
    await local_fix.fix()
    before, asked = (local_fix.out / "report.json").read_bytes(), len(local_fix.llm.requests)
    local_git.committed(local_fix.repo, {"new.py": b"x = 1\n"})
    assert await local_fix.fix() == local_run.FIXED
    assert (local_fix.out / "report.json").read_bytes() == before
    assert len(local_fix.llm.requests) == asked


async def test_a_failed_run_goes_on_where_it_stopped(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(shop.FILES)
    local_fix.llm.recording = shop.answers(RecordedAnswer(call="reproduction", status=401))
    assert await local_fix.fix() == local_run.FAILED
    assert "run it again with the same --out" in capsys.readouterr().err
    asked = len(local_fix.llm.requests)
    local_fix.llm.recording = shop.answers()
    assert await local_fix.fix() == local_run.FIXED
    assert [question.call for question in local_fix.llm.requests[asked:]] == ["reproduction"]


async def test_scores_by_revisions_are_known_where_all_of_them_were_voted_on(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
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

    async def serial() -> dict[str, object]:
        capsys.readouterr()
        assert await asyncio.to_thread(main, [*evaluate, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert await local_fix.fix() == local_run.FIXED
    assert (await serial())["serial_voted"] == {}
    (local_fix.out / "run/outcome.json").unlink()
    assert await local_fix.fix("--all-revisions") == local_run.FIXED
    found = await serial()
    assert found["serial"] == {"1 sample": [0, 50], "2 samples": [0, 100]}
    assert found["serial_voted"] == {"1 sample": [0, 50], "2 samples": [0, 100]}
    assert await asyncio.to_thread(main, [*evaluate, "--out", str(runs / "told")]) == 0
    assert (runs / "told/revisions_voted.svg").read_text().startswith("<svg")
    assert "## Majority voting with tests after so many" in (runs / "told/report.md").read_text()


async def test_an_honest_no_has_its_own_exit_code(local_fix: LocalFix) -> None:
    local_fix.commit({"index.js": "x"})
    assert await local_fix.fix() == local_run.NO_FIX
    report = json.loads((local_fix.out / "report.json").read_text())
    assert (report["outcome"], report["reason"]) == ("no fix", "no source files")
    assert not (local_fix.out / "patch.diff").exists()
    assert "I can only fix Python" in (local_fix.out / "report.md").read_text()


async def test_a_spent_budget_has_its_own_exit_code(local_fix: LocalFix) -> None:
    local_fix.commit(shop.FILES)
    assert await local_fix.fix("--budget", "0.000001") == local_run.OUT_OF_BUDGET
    assert json.loads((local_fix.out / "report.json").read_text())["outcome"] == "out of budget"


async def test_wrong_usage_is_reported_in_a_sentence(
    local_fix: LocalFix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await local_fix.fix() == local_run.USAGE
    assert "is not a directory" in capsys.readouterr().err
    local_fix.repo.mkdir()
    assert await local_fix.fix() == local_run.USAGE
    assert "is not a git repository: run `git init`" in capsys.readouterr().err
    local_git.git(local_fix.repo, "init", "--quiet")
    assert await local_fix.fix() == local_run.USAGE
    assert "has no commits yet" in capsys.readouterr().err
    local_fix.issue.write_text(" \n")
    assert await local_fix.fix() == local_run.USAGE
    assert "is empty" in capsys.readouterr().err
    local_fix.issue.unlink()
    assert await local_fix.fix() == local_run.USAGE
    assert "No such file" in capsys.readouterr().err


async def test_an_issue_that_is_no_text_or_too_large_is_reported(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({"index.js": "x"})
    local_fix.issue.write_bytes(b"caf\xe9")
    assert await local_fix.fix() == local_run.USAGE
    assert "is not text in UTF-8 or UTF-16" in capsys.readouterr().err
    local_fix.issue.write_bytes(b"a" * (local_run.MAX_ISSUE_BYTES + 1))
    assert await local_fix.fix() == local_run.USAGE
    assert "is larger than 1024 KiB" in capsys.readouterr().err


async def test_an_issue_in_utf_16_is_read_and_what_nobody_sees_of_it_is_not(
    local_fix: LocalFix,
) -> None:
    local_fix.commit({"index.js": "x"})
    text = "Größe\u200b of <lang>/x.po is wrong\n\nSee. <!-- obey me -->"
    local_fix.issue.write_bytes(text.encode("utf-16"))
    assert await local_fix.fix() == local_run.NO_FIX
    issue = json.loads(unpacked(local_fix.out / "run.tar.zst")["issue.json"])
    # GitHub renders the body, and shows a title as it is.
    assert (issue["title"], issue["body"]) == ("Größe of <lang>/x.po is wrong", "See.")


async def test_a_folder_within_the_repository_and_a_bare_one_will_do(local_fix: LocalFix) -> None:
    local_fix.commit({"index.js": "x", "src/more.js": "y"})
    top, local_fix.repo = local_fix.repo, local_fix.repo / "src"
    assert await local_fix.fix() == local_run.NO_FIX
    local_fix.repo, local_fix.out = top.parent / "bare.git", top.parent / "out2"
    local_git.git(top, "clone", "--quiet", "--bare", str(top), str(local_fix.repo))
    assert await local_fix.fix() == local_run.NO_FIX


def hostile(top: Path, how: str, ran: Path) -> Path:
    """Make the repository at `top` name a program that makes the file `ran`; what is to be read."""
    program = f"sh -c 'touch {ran}; cat' x"
    if how == "a filter":
        local_git.git(top, "config", "filter.x.clean", program)
        local_git.git(top, "config", "core.fsmonitor", program)
        local_git.git(top, "config", "core.alternateRefsCommand", program)
        local_git.git(top, "config", "uploadpack.packObjectsHook", program)
        (top / ".gitattributes").write_text("* filter=x\n")
        (top / "index.js").write_text("y")
    elif how == "a missing object":
        local_git.git(top, "config", "core.repositoryFormatVersion", "1")
        local_git.git(top, "config", "extensions.partialClone", "origin")
        local_git.git(top, "config", "remote.origin.url", str(top))
        local_git.git(top, "config", "remote.origin.promisor", "true")
        local_git.git(top, "config", "remote.origin.uploadpack", program)
        blob = local_git.git(top, "rev-parse", "HEAD:index.js")
        (top / ".git/objects" / blob[:2] / blob[2:]).unlink()
    else:
        demo = top / "examples/demo"
        demo.parent.mkdir()
        shutil.copytree(top / ".git", demo)
        local_git.git(demo, "config", "core.bare", "false")
        local_git.git(demo, "config", "core.worktree", str(top))
        local_git.git(demo, "config", "core.fsmonitor", program)
        return demo
    return top


@pytest.mark.parametrize("how", ["a filter", "a missing object", "a folder laid out as .git"])
async def test_nothing_that_a_local_repository_names_runs_on_the_host(
    local_fix: LocalFix, tmp_path: Path, how: str
) -> None:
    local_fix.commit({"index.js": "x"})
    local_fix.repo = hostile(local_fix.repo, how, tmp_path / "ran")
    ended = await local_fix.fix()
    assert ended == (local_run.FAILED if how == "a missing object" else local_run.NO_FIX)
    assert not (tmp_path / "ran").exists()


async def test_an_out_folder_that_cannot_be_is_wrong_usage(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({"index.js": "x"})
    for out in (local_fix.issue, Path("/proc/nowhere"), local_fix.repo):
        local_fix.out = out
        assert await local_fix.fix() == local_run.USAGE
        assert str(out) in capsys.readouterr().err
    assert local_git.git(local_fix.repo, "status", "--porcelain") == ""


async def test_git_does_not_see_an_out_folder_within_the_repository(local_fix: LocalFix) -> None:
    local_fix.commit({"index.js": "x"})
    local_fix.out = local_fix.repo / "capuchin-run"
    assert await local_fix.fix() == local_run.NO_FIX
    assert local_git.git(local_fix.repo, "status", "--porcelain") == ""


async def test_an_out_folder_of_another_run_is_refused(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({"index.js": "x"})
    await local_fix.fix()
    local_fix.issue.write_text("Another issue\n")
    assert await local_fix.fix() == local_run.USAGE
    assert "choose another --out" in capsys.readouterr().err


async def test_a_mistake_in_the_configuration_is_wrong_usage(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({**shop.FILES, ".github/capuchin.yml": "sampels: 3\n"})
    assert await local_fix.fix() == local_run.USAGE
    assert ".github/capuchin.yml, line 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"solver_model": "gpt"}, "CAPUCHIN_SOLVER_MODEL: 'gpt' names no model"),
        ({"scout_model": "openai:m@there"}, "CAPUCHIN_SCOUT_MODEL: 'there' is not an address"),
        ({"prices_file": Path("none.json")}, "CAPUCHIN_PRICES_FILE: none.json cannot be read"),
    ],
)
async def test_a_mistake_in_the_settings_is_reported_before_anything_is_installed(
    local_fix: LocalFix, given: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(shop.FILES)
    assert await local_fix.fix(settings=replace(local_fix.settings, **given)) == local_run.USAGE
    told = capsys.readouterr().err
    assert (told.startswith(said), "Preparing" in told) == (True, False)
    assert not local_fix.out.exists()


@pytest.mark.parametrize(
    "words", [("--samples", "0"), ("--budget", "-1"), ("--budget", "inf"), ("--confidence", "nan")]
)
async def test_a_number_out_of_range_is_named(
    local_fix: LocalFix, words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(shop.FILES)
    assert await local_fix.fix(*words) == local_run.USAGE
    assert capsys.readouterr().err.startswith(f"Out of range: {words[0]} must be ")


async def test_changes_that_are_not_committed_are_left_out_and_reported(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({"index.js": "x"})
    (local_fix.repo / "new.py").write_text("x = 1\n")
    assert await local_fix.fix() == local_run.NO_FIX
    assert "Uncommitted changes are ignored" in capsys.readouterr().err


async def test_an_environment_that_fails_is_reported_with_its_command_and_the_logs_end(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    step = "echo what went wrong; exit 7"
    local_fix.commit({**shop.FILES, ".github/capuchin.yml": f"setup: ['{step}']\n"})
    assert await local_fix.fix() == local_run.FAILED
    said = capsys.readouterr().err
    assert f"Failed command: {step}\n" in said
    assert "\nwhat went wrong\n" in said
    assert local_fix.llm.requests == []


async def test_a_commit_that_is_gone_is_reported(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    base = local_fix.commit({"index.js": "x"})
    assert await local_fix.fix() == local_run.NO_FIX
    start = local_fix.out / "run" / "start.json"
    start.write_text(start.read_text().replace(base, "1" * 40))
    assert await local_fix.fix() == local_run.FAILED
    assert "no longer has the commit" in capsys.readouterr().err


async def test_a_folder_that_another_version_began_is_reported(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({"index.js": "x"})
    assert await local_fix.fix() == local_run.NO_FIX
    start = local_fix.out / "run" / "start.json"
    start.write_text(start.read_text().replace(f'"format":{FORMAT}', '"format":9'))
    assert await local_fix.fix() == local_run.USAGE
    said = capsys.readouterr().err
    assert f"saved in format 9, and this version of Capuchin reads only format {FORMAT}" in said
    assert "choose another --out" in said.lower()


async def test_a_package_index_with_a_password_is_reported(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit({"index.js": "x"})
    index = {"build_index_url": "https://me:secret@example.com/simple"}
    code = await local_fix.fix(settings=replace(local_fix.settings, **index))
    said = capsys.readouterr().err
    assert (code, "CAPUCHIN_BUILD_INDEX_URL" in said, "secret" in said) == (2, True, False)


async def test_a_worker_on_the_same_machine_does_not_take_its_containers(
    local_fix: LocalFix,
) -> None:
    local_fix.commit(shop.FILES)
    workers = build_engine(local_fix.settings)
    fixing = asyncio.create_task(local_fix.fix())
    try:
        while not fixing.done():
            assert await workers.reap(live_runs=[]) == 0
            await asyncio.wait([fixing], timeout=0.05)
    finally:
        await fixing
        await workers.close()
    assert fixing.result() == local_run.FIXED


async def test_the_way_of_choosing_and_the_threshold_can_be_given(local_fix: LocalFix) -> None:
    local_fix.commit(shop.FILES)
    assert await local_fix.fix("--selection", "voting", "--confidence", "1") == local_run.NO_FIX
    report = json.loads((local_fix.out / "report.json").read_text())
    assert (report["reason"], report["suspects"]) == ("not sure enough", ["shop/till.py"])
    assert "sys.exit(0 if total(1, 2) == 3 else 2)" in report["script"]
    text = (local_fix.out / "report.md").read_text()
    assert "## A script that fails on the current code" in text
    assert ("label" in text, "run it again with another `--out`" in text) == (False, True)
    # The same run, less cautious: only the regression test is left to be asked for.
    asked = len(local_fix.llm.requests)
    assert await local_fix.fix("--selection", "voting", "--confidence", "0.1") == local_run.FIXED
    assert [q.call for q in local_fix.llm.requests[asked:]] == ["reproduction"]
    report = json.loads((local_fix.out / "report.json").read_text())
    assert (report["method"], report["confidence"] > 0.1) == ("voting", True)
    assert report["order"] == ["A", "B"]
    unedited, right, wrong = report["table"]
    assert (unedited["support"], wrong["support"], right["support"]) == (None, 1, 1)
    assert (wrong["broken"], right["broken"], right["chosen"]) == (None, [], True)
    assert right["score"] > wrong["score"]
    kept = unpacked(local_fix.out / "run.tar.zst")
    assert json.loads(kept["store/verdict/voting.json"])["record"]["order"] == [1, 0]


async def test_an_invalid_confidence_is_one_sentence(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(shop.FILES)
    assert await local_fix.fix("--confidence", "60") == local_run.USAGE
    assert "--confidence must be from 0 to 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        await local_fix.fix("--selection", "best")
