"""The environment in reports, and in the settings file that is proposed."""

from __future__ import annotations

from bot.comments import settings_file as config_proposal
from bot.comments.run_details import build_environment_report, render_environment
from bot.repo_config.model import RepoConfig, parse_config
from bot.runner.runner import with_environment
from pipeline.data.types import NoFix
from pipeline.environment.health import Health, ImportedPackage
from pipeline.environment.prepare import WorkingAttempt
from pipeline.environment.record import EnvironmentRecord, TriedAttempt
from sandbox.environment.recipe import Installation, LeftOut
from sandbox.frozen import replace

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
        left_out=(LeftOut(requirement="pylibmc", reason="it needs libmemcached"),),
    ),
    given_up=HOSTILE,
    finished=True,
)  # fmt: skip


def test_the_report_says_which_attempt_serves_and_how_well() -> None:
    report = build_environment_report(RECORD)
    assert (report.grade, report.rung, report.python, report.version) == (
        "broken", "today", "3.8.20", "1.2",
    )  # fmt: skip
    assert (report.imports, report.passed, report.failed) == (False, 0, 2)
    assert report.left_out == ("pylibmc: it needs libmemcached",)
    assert [attempt.installed for attempt in report.attempts] == [False, True]
    text = render_environment(RECORD)
    assert "The environment does not work." in text
    assert "<script>" not in text
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


def test_commands_of_a_model_are_proposed_as_they_are() -> None:
    commands = ("pip install 'a<2' # \"why\": [x]", "- {evil: yes}", "é\t\\n")
    working = WorkingAttempt(manifests="m", name="model", setup=commands, python="3.8")
    config = parse_config(config_proposal.render_file("", working))
    assert isinstance(config, RepoConfig)
    assert (config.setup, config.python) == (commands, "3.8")
    said = config_proposal.file_exists(".github/capuchin.yml", working)
    assert 'python: "3.8"\nsetup:\n' in said
