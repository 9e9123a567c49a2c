"""Every failure has a sentence, which says what to do and does not contain the exception's text."""

from typing import get_args

import pytest

from bot.comments import failures, status
from bot.data.failure import SENTENCES, Failure, FailureFacts, PublishProblem, SwapProblem
from bot.errors import RunFailed, translate_errors
from pipeline.data.types import NoFix, NoFixReason
from pipeline.environment.record import NO_INDEX
from pipeline.workflows.verify import VerificationVerdict
from sandbox.errors import EnvironmentFailed
from tests.support.data.publishing import a_run


@pytest.mark.parametrize("failure", list(Failure))
def test_each_failure_has_a_sentence(failure: Failure) -> None:
    said = failures.failure_reason(failure, FailureFacts(words="pip install ."))
    assert said.endswith(".")
    assert "{" not in said
    assert failure.name not in said


def test_where_the_index_does_not_answer_no_settings_are_asked_for() -> None:
    asks = [
        "capuchin.yml" in failures.failure_reason(Failure.ENVIRONMENT, FailureFacts(words=words))
        for words in ("It failed.", f"It failed. {NO_INDEX}")
    ]
    assert asks == [True, False]


def test_the_table_of_sentences_has_no_other_names() -> None:
    names = {"failure": [*Failure], "no_fix": get_args(NoFixReason)}
    names |= {"unpublished": get_args(PublishProblem), "no_swap": get_args(SwapProblem)}
    names |= {"verification": get_args(VerificationVerdict)}
    for table, listed in names.items():
        assert SENTENCES[table].keys() <= {*listed}


def test_no_two_failures_sound_alike() -> None:
    said = [failures.failure_reason(failure) for failure in Failure]
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("reason", get_args(NoFixReason))
def test_each_honest_no_has_a_sentence(reason: NoFixReason) -> None:
    assert failures.no_fix_reason(reason).endswith(".")


def test_an_honest_no_tells_what_was_learnt_without_notifying_anybody() -> None:
    answer = NoFix(reason="no reproduction", details=("@bob's `f()` <!-- x -->returns 1",))
    said = status.render_no_fix(a_run(), answer)
    assert "- @\u200bbob's `f()` returns 1" in said
    assert said.startswith("I did not find a fix that I am confident in: I could not write a test")


def test_a_failed_installation_shows_the_end_of_its_log_and_nothing_in_it_acts() -> None:
    failed = EnvironmentFailed(
        "It @needs\nmore.", command="make\n@all", log="</details>\n```\n@bob"
    )
    with pytest.raises(RunFailed) as raised, translate_errors():
        raise failed
    said = failures.failure_reason(raised.value.failure, raised.value.facts)
    assert "`make @all` failed. It @\u200bneeds more." in said
    assert "<summary>The end of the log</summary>\n\n````text\n</details>\n```\n@bob\n````" in said
