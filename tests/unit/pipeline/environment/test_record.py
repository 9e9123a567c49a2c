"""What an attempt says of its Python."""

import pytest

from pipeline.environment.health import Health
from pipeline.environment.record import (
    EnvironmentRecord,
    TriedAttempt,
    best_of,
    explain_failure,
    is_enough,
    name_asker,
    state_day,
    state_found,
    state_python,
)
from sandbox.frozen import replace
from sandbox.guest.image.choose_python import failure_sentence
from tests.support.texts import texts_of

ROWS = texts_of(__file__)


def test_the_pythons_of_the_sandbox_are_known_where_it_lacks_the_wanted_one() -> None:
    sentence = failure_sentence("<3.8", "setup.py", "3.8, 3.11", "uv could not fetch Python 3.7.")
    tried = TriedAttempt(name="a", summary="", command="python3 choose_python.py", problem=sentence)
    assert tried.pythons == ("3.8", "3.11")
    assert TriedAttempt(name="a", summary="", problem=sentence).pythons == ()


def test_the_model_that_asked_for_a_python_is_named_where_it_cannot_be_had() -> None:
    where = "python in its configuration file"
    sentence = failure_sentence("3.8", where, "3.9, 3.11", "uv could not fetch Python 3.8.")
    tried = TriedAttempt(
        name="model", summary="A command by a model", command="python3 choose_python.py",
        problem=sentence, log=f"error: unreachable\n{sentence}\n",
    )  # fmt: skip
    named = name_asker(tried, "3.8")
    assert "3.9, 3.11" in named.problem
    assert named.problem.startswith("The model asked for Python 3.8")
    assert (named.log, named.pythons) == (
        f"error: unreachable\n{named.problem}\n", ("3.9", "3.11"),
    )  # fmt: skip
    other = replace(tried, command="pip install x", problem="It fails.")
    assert name_asker(other, "3.8") == other


def test_the_python_that_is_there_is_named_and_the_one_that_is_not() -> None:
    asked = "Python 3.7 (3.11 if it is not there), the newest packages."
    assert (
        state_python(asked, "3.11.2") == "Python 3.11 (3.7 is not installed), the newest packages."
    )
    assert state_python(asked, "3.7.17") == "Python 3.7, the newest packages."
    assert state_python("Python 3.7, the newest packages.", "3.9.1") == (
        "Python 3.9 (3.7 is not installed), the newest packages."
    )
    for other in ("A command by a model", "Python 3.7, the newest packages."):
        assert state_python(other, "") == other


@pytest.mark.parametrize(
    ("summary", "as_of", "said"),
    [
        ("packages as of 2023-03-25, tox's", "2023-07-21", "packages as of 2023-07-21, tox's"),
        ("packages as of 2023-03-25, tox's", "2023-03-25", "packages as of 2023-03-25, tox's"),
        ("packages as of 2023-03-25, tox's", "", "packages as of 2023-03-25, tox's"),
        ("packages as of 2023-07-21 (270 days after Python 3.11 came out), tox's", "2024-07-20",
         "packages as of 2024-07-20, tox's"),
        ("the newest packages, tox's", "2023-07-21", "the newest packages, tox's"),
    ],
)  # fmt: skip
def test_the_day_that_was_used_is_named_and_not_the_planned_one(
    summary: str, as_of: str, said: str
) -> None:
    asked = f"Python 3.11 (3.10 is not installed), {summary} requirements."
    assert state_day(asked, as_of) == f"Python 3.11 (3.10 is not installed), {said} requirements."


def test_an_interpreter_that_cannot_be_fetched_is_not_blamed_on_the_index() -> None:
    log = "error sending request for url (https://github.com/astral-sh/python-build-standalone/a)"
    tried = [
        TriedAttempt(name="a", summary="A", command=command, log=log, problem="No Python fits.")
        for command in ("python3 choose_python.py", "python3 install.py")
    ]
    assert [one.met_no_index for one in tried] == [False, True]
    assert str(explain_failure(EnvironmentRecord(tried=tuple(tried[:1])))) == "No Python fits."


@pytest.mark.parametrize(
    ("log", "is_index"),
    ROWS["what_a_package_downloads_by_itself_is_not_blamed_on_the_index"],
)  # fmt: skip
def test_what_a_package_downloads_by_itself_is_not_blamed_on_the_index(
    log: str, is_index: bool
) -> None:
    assert TriedAttempt(name="a", summary="A", command="npm ci", log=log).met_no_index is is_index


@pytest.mark.parametrize(("log", "end"), ROWS["what_is_said_after_the_cause_is_not_told"])
def test_what_is_said_after_the_cause_is_not_told(log: str, end: str) -> None:
    tried = TriedAttempt(name="a", summary="A", problem="It fails.", log=log)
    assert tried.line().endswith(end)


def test_an_image_that_served_before_and_is_not_checked_again_counts_as_installed() -> None:
    said = TriedAttempt(name="a", summary="Python 3.11", image="sha256:1").line()
    assert "not installed" not in said
    assert not said.endswith(":")


def test_submodules_are_named_where_nothing_could_be_installed() -> None:
    record = EnvironmentRecord(tried=(TriedAttempt(name="a", summary="A", problem="It fails."),))
    assert str(explain_failure(record, ["vendor/llhttp"])) == (
        "It fails. The repository has a submodule, which is not fetched: vendor/llhttp."
    )
    assert str(explain_failure(record, ["a", "b"])).endswith(
        " The repository has submodules, which are not fetched: a and b."
    )


def test_a_failed_attempt_is_named_by_what_its_output_shows() -> None:
    log = "python: 3.11.2\n$ uv pip install --exclude-newer 2023-07-21 six\nerror: no\n"
    told = state_found("Python 3.6, packages as of 2017-09-19, tox's requirements.", log)
    assert told.startswith("Python 3.11 (3.6 is not installed), packages as of 2023-07-21, ")
    assert state_found("Python 3.6, the newest packages.", "") == "Python 3.6, the newest packages."


def test_one_more_attempt_is_made_where_a_project_has_no_results() -> None:
    def attempt(name: str, *projects: int) -> TriedAttempt:
        health = Health.model_validate(
            {"loads_nothing": True, "command": ("t",), "passed": 2, "projects": projects}
        )
        return TriedAttempt(name=name, summary="", image=name, health=health)

    part, whole, other = attempt("part", 1, 2), attempt("whole", 2, 2), attempt("other", 1, 3)
    assert not is_enough(EnvironmentRecord(tried=(part,)))
    assert is_enough(EnvironmentRecord(tried=(whole,)))
    assert is_enough(EnvironmentRecord(tried=(part, other)))
    assert best_of((part, whole)) == 1
