"""What git's words mean where a remote takes no push: a rule, or a moment in which GitHub fails."""

import pytest

from bot.errors import GitHubUnavailable, PushRejected
from bot.git.mirrors import translate_failure
from pipeline.codebase.git import GitFailed
from tests.support.texts import texts_of

ROWS = texts_of(__file__)


def refuse(*said: str, why: str = "pre-receive hook declined") -> Exception:
    lines = [*(f"remote: {line}" for line in said), f" ! [remote rejected] a -> a ({why})"]
    return translate_failure(GitFailed("push", 1, "\n".join(lines)))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Internal Server Error", "Internal Server Error"),
        ("fatal error in commit_refs", "failure"),
        ("", "fatal error in commit_refs"),
        ("error: unable to migrate objects to permanent storage", "unpacker error"),
        ("This repository is temporarily read-only for maintenance.", "pre-receive hook declined"),
        ("This repository has been locked for migration.", "pre-receive hook declined"),
    ],
)
def test_a_hiccup_is_tried_again(said: str, why: str) -> None:
    assert isinstance(refuse(said, why=why), GitHubUnavailable)


@pytest.mark.parametrize(
    ("said", "problem"),
    ROWS["a_rule_is_told_apart"],
)  # fmt: skip
def test_a_rule_is_told_apart(said: str, problem: str) -> None:
    refused = refuse(*said.split("\nremote: "))
    assert isinstance(refused, PushRejected)
    assert refused.facts.problem == problem
