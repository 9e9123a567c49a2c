"""How files were found, how the environment is, and which hosts received code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.comments import settings_file
from bot.comments.run_details import (
    destinations_note,
    dump_context,
    dump_environment,
    external_hosts,
    render_context,
    render_environment,
)
from bot.repo_config.model import RepoConfig, parse_config
from bot.runner.runner import with_environment
from bot.settings import Settings
from pipeline.context.finder import ContextFinder
from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import Account, Issue, NoFix, Usage
from pipeline.environment.health import Health, ImportedPackage
from pipeline.environment.prepare import WorkingAttempt
from pipeline.environment.record import EnvironmentRecord, TriedAttempt
from pipeline.store import DirStore
from sandbox.environment.recipe import Installation, LeftOut
from sandbox.frozen import replace
from tests.support.data.publishing import ACCOUNTS, selection_of_three
from tests.support.data.repositories import make_codebase
from tests.support.fakes import ScriptedModel
from tests.support.recorded_scout import NO, YES

FILES = {
    "pkg/heads.py": "def parse_header(line):\n    return line\n",
    "pkg/http.py": "import heads\n",
    "pkg/other.py": "x = 1\n",
}
ISSUE = Issue(
    repository="a/b", title="parse_header fails", body='File "/x/pkg/http.py", line 3, in get'
)
NONE: Mapping[str, str] = {}
RANKING = "<ranking>\npkg/heads.py\npkg/invented.py\n</ranking>"


async def found(
    folder: Path,
    relevance: str,
    *,
    scout: bool = True,
    body: str = ISSUE.body,
    more: Mapping[str, str] = NONE,
) -> Context:
    model = ScriptedModel(
        {"relevance": [relevance], **{f"ranking/{n}": [RANKING] for n in range(3)}}
    )
    finder = ContextFinder(
        solver=model,
        scout=model if scout else None,
        store=DirStore(folder / "store"),
        options=Options(),
    )
    issue = replace(ISSUE, body=body)
    context = await finder.find(await make_codebase(folder / "r.git", {**FILES, **more}), issue)
    assert context is not None
    return context


async def test_a_file_of_a_stack_trace_is_shown_though_nobody_found_it_relevant(
    tmp_path: Path,
) -> None:
    context = await found(tmp_path, NO)
    assert "pkg/http.py" in [file.path for file in context.files]
    assert "It found none relevant" not in render_context(context, ())


async def test_that_a_scout_found_nothing_and_words_were_taken_is_reported(tmp_path: Path) -> None:
    context = await found(tmp_path, NO, body="It raises.")
    assert [file.path for file in context.files] == ["pkg/heads.py"]
    said = render_context(context, ())
    assert "The scout read every source file." in said
    assert "It found none relevant: those that share most words with the issue" in said


async def test_the_report_says_which_way_was_taken_and_what_was_invented(tmp_path: Path) -> None:
    with_scout = await found(tmp_path / "a", YES)
    without = await found(tmp_path / "b", YES, scout=False)
    spent = [
        Account(stage="ranking", model="m", calls=3, usage=Usage(), dollars=0.25),
        Account(stage="editing", model="m", calls=3, usage=Usage(), dollars=9),
    ]
    report = dump_context(with_scout, spent, 1.5)
    assert report is not None
    told = [report[name] for name in ("way", "read", "invented", "dollars")]
    assert told == ["scout", 3, 1, 0.25]
    assert report["shown_tokens"] > 0
    assert "The scout read every source file." in render_context(with_scout, spent)
    said = render_context(without, spent)
    assert "No scout model is configured" in said
    assert "Cost: $0.2500 at list prices" in said


async def test_the_report_counts_what_the_ranking_left_out(tmp_path: Path) -> None:
    said = render_context(await found(tmp_path / "a", YES, body="It raises."), ())
    assert "The solver model left 2 files out of its ranking as not needed." in said
    assert "out of its ranking" not in render_context(await found(tmp_path / "b", NO), ())


async def test_the_report_counts_the_files_that_the_ranking_was_never_offered(
    tmp_path: Path,
) -> None:
    more = {f"pkg/n{n}.py": f"x = {n}  # no header\n" for n in range(1200)}
    context = await found(tmp_path / "a", YES, scout=False, body="It raises.", more=more)
    assert "Files: 1 of 1,203 shown to the model" in render_context(context, ())
    unlisted = "1,128 files were not listed for the ranking: less in common with the issue than"
    assert unlisted in render_context(context, ())
    assert "not listed" not in render_context(await found(tmp_path / "b", YES), ())


async def test_a_run_that_explored_is_not_said_to_have_been_shown_every_chosen_file(
    tmp_path: Path,
) -> None:
    context = await found(tmp_path, YES)
    explored = [Account(stage="exploring", model="m", calls=3, usage=Usage(), dollars=1)]
    said = render_context(context, explored)
    assert "shown to the model" not in said
    assert "The model was shown" not in said
    assert "A sample that explores" in said
    assert "shown to the model" in render_context(context, ())


async def test_a_summary_cannot_break_the_table(tmp_path: Path) -> None:
    hostile = '{"relevant": true, "summary": "a | b </details> <script> @everyone `x | y`"}'
    said = render_context(await found(tmp_path, hostile), [])
    assert said.count("</details>") == 1
    assert "<script>" not in said
    rows = [line for line in said.splitlines() if line.startswith("| `pkg/")]
    assert {row.count("|") for row in rows} == {4}


OWN = ("127.0.0.1", "10.0.0.5")
LIVE = [replace(account, model="qwen") for account in ACCOUNTS]


def sent_note(*sent_to: str, served: bool = True, **fields: str) -> str:
    hosts = external_hosts(sent_to, Settings.model_validate(fields), by_app=served)
    return destinations_note(hosts, LIVE, by_app=served)


def test_all_on_the_operators_own_machines() -> None:
    assert sent_note(*OWN) == (
        "The models ran on the operator's own machines or network, and I sent code nowhere else "
        "except to GitHub. I cannot see whether those machines pass it on."
    )
    assert "nowhere else. I cannot" in sent_note(*OWN, served=False)


def test_hosts_elsewhere_are_named_and_own_ones_are_not() -> None:
    assert sent_note(*OWN, "api.anthropic.com") == "Code was sent to `api.anthropic.com`."
    many = sent_note(*(f"m{n}.example.org" for n in range(13)))
    assert many.endswith("`m9.example.org` and 3 more.")


@pytest.mark.parametrize(
    ("fields", "host"),
    [
        ({"redis_url": "redis://user:secret@redis.example.org:6379/0"}, "redis.example.org"),
        ({"docker": "ssh://root@build.example.org"}, "build.example.org"),
        ({"docker": "tcp://builder:2376"}, "builder"),
    ],
)
def test_what_keeps_and_runs_the_code_counts_too(
    fields: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", fields.pop("docker", "unix:///var/run/docker.sock"))
    assert sent_note(*OWN, served=True, **fields) == f"Code was sent to `{host}`."
    assert "nowhere else" in sent_note(*OWN, served=True, own_hosts=f"x, {host}", **fields)


def test_a_cluster_is_somewhere_unless_it_is_declared() -> None:
    fields = {"sandbox": "kubernetes", "sandbox_registry": "registry.example.org:5000/capuchin"}
    assert (
        sent_note(*OWN, served=True, **fields)
        == "Code was sent to `kubernetes` and `registry.example.org`."
    )
    own = "kubernetes,.example.org"
    assert "nowhere else" in sent_note(*OWN, served=True, own_hosts=own, **fields)


def test_without_redis_its_address_is_of_no_interest() -> None:
    assert "nowhere else" in sent_note(*OWN, served=False, redis_url="redis://redis.example.org")


def test_what_is_not_known_is_not_said() -> None:
    assert (sent_note(), sent_note("", *OWN)) == ("", "")


HOSTILE = "</output> @everyone *x* <script>"
BROKEN = Health(
    python="3.8.1",
    packages=(ImportedPackage(name="shop", error=f"ImportError: {HOSTILE}"),),
    command=("python", "-m", "pytest"),
    of_files=2,
    files=2,
    failed=2,
    errors={"import error": 2},
)
RECORD = EnvironmentRecord(
    tried=(
        TriedAttempt(name="dated", summary="Python 3.8.", problem=f"{HOSTILE} fails."),
        TriedAttempt(name="today", summary="Today's packages.", image="i", health=BROKEN),
    ),
    chosen=1,
    installation=Installation(
        python="3.8.20", version="1.2", commands=("uv pip install .",),
        as_of="2023-07-21", later={"six": "2023-09-01"},
        left_out=(LeftOut(requirement="pylibmc", reason="it needs libmemcached"),),
    ),
    given_up=HOSTILE,
    finished=True,
)  # fmt: skip


def test_the_report_says_which_attempt_serves_and_how_well() -> None:
    report = dump_environment(RECORD)
    said = [report[name] for name in ("grade", "rung", "python", "version")]
    assert said == ["broken", "today", "3.8.20", "1.2"]
    assert [report[name] for name in ("imports", "passed", "failed")] == [False, 0, 2]
    assert report["left_out"] == ["pylibmc: it needs libmemcached"]
    assert [attempt["installed"] for attempt in report["attempts"]] == [False, True]
    text = render_environment(RECORD)
    assert "The environment does not work." in text
    assert "<script>" not in text
    assert "packages as of 2023-07-21, later ones of six." in text
    assert "could not be installed:\n\n- `pylibmc`: it needs libmemcached\n" in text
    assert "\n- Python 3.8: not installed: " in text
    assert "\n- Today's packages: this is the environment that was used.\n" in text
    assert text.count("cannot be imported") == 1, "its health is said once"
    assert render_environment(EnvironmentRecord()) == ""


def test_of_many_packages_that_are_lacking_some_are_named_and_the_rest_counted() -> None:
    lacking = tuple(LeftOut(requirement=f"p{n}", reason=HOSTILE) for n in range(40))
    installation = replace(RECORD.installation or Installation(), left_out=lacking)
    text = render_environment(replace(RECORD, installation=installation))
    assert "- `p11`: " in text
    assert "- `p12`" not in text
    assert "\n- and 28 more\n" in text
    assert "<script>" not in text


def test_an_honest_no_begins_with_the_environment_that_does_not_work() -> None:
    no = with_environment(NoFix(reason="no edit", details=("Other.",)), RECORD)
    assert no.details[0].startswith("The repository does not work in the environment")
    assert no.details[1] == "Other."
    good = Health(python="3.8.1", command=("pytest",), files=1, of_files=1, passed=3)
    healthy = replace(RECORD.tried[1], health=good)
    record = replace(RECORD, tried=(RECORD.tried[0], healthy))
    assert with_environment(NoFix(reason="no edit"), record).details == ()
    assert with_environment(selection_of_three(), record).evidence.notes == ()
    good = replace(good, projects=(1, 2), of_files=3, reach=1, silent="`web` (2)", chosen="Of 2.")
    record = replace(record, tried=(replace(healthy, health=good),), chosen=0)
    (note,) = with_environment(selection_of_three(), record).evidence.notes
    assert "`web` (2)" in note
    assert note.endswith("Of 2.")
    chosen = selection_of_three()
    assert chosen.evidence.suite is not None
    [name] = chosen.evidence.suite.before.passed[:1]
    once = replace(good, failed=1, failing=(name,), errors={"assertion": 1}, projects=(0, 0))
    once = replace(once, chosen="", reach=0)
    record = replace(record, tried=(replace(healthy, health=once),))
    (note,) = with_environment(chosen, record).evidence.notes
    assert name in note
    assert "1 test fails" in once.works
    assert name in once.summary()


def test_an_environment_that_works_in_part_is_called_so_everywhere_and_the_advice_is_first() -> (
    None
):
    half = replace(BROKEN, packages=(), passed=2, problem="It needs another Python. " * 40)
    record = replace(RECORD, tried=(RECORD.tried[0], replace(RECORD.tried[1], health=half)))
    assert "## Environment\n\nThe environment works only in part. " in render_environment(record)
    assert record.complaint().startswith(
        "The repository works only in part in the environment that I could make. Say in `setup` "
        "how it is installed. 2 of 4 tests pass"
    )


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"name": "setup"}, "Correct its `setup`."),
        (
            {"summary": "What go test installs. go.mod asks for version 9, and there is 1.27."},
            "dockerfile",
        ),
        ({"image": "", "health": None, "command": "/opt/capuchin/choose_python.py"}, "dockerfile"),
    ],
)
def test_setup_is_advised_only_where_it_can_help(changed: dict[str, Any], advice: str) -> None:
    first, second = RECORD.tried
    if "image" in changed:
        first = replace(first, **changed)
    else:
        second = replace(second, **changed)
    sentence = replace(RECORD, tried=(first, second), chosen=1).complaint()
    assert advice in sentence
    assert "Say in `setup`" not in sentence


def test_commands_of_a_model_are_proposed_as_they_are() -> None:
    commands = ("pip install 'a<2' # \"why\": [x]", "- {evil: yes}", "é\t\\n")
    working = WorkingAttempt(manifests="m", name="model", setup=commands, python="3.8")
    config = parse_config(settings_file.render_file("", working))
    assert isinstance(config, RepoConfig)
    assert (config.setup, config.python) == (commands, "3.8")
    said = settings_file.file_exists(".github/capuchin.yml", working)
    assert 'python: "3.8"\nsetup:\n' in said
