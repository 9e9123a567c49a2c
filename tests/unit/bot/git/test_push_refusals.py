"""What git's words mean where a remote takes no push: a rule, or a moment in which GitHub fails."""

import pytest

from bot.errors import GitHubUnavailable, PushRejected
from bot.git.mirrors import translate_failure
from pipeline.codebase.git import GitFailed


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
    [
        ("error: GH001: Large files detected. You may want to try Git LFS.", "file size"),
        ("error: GH008: Your push referenced at least 1 unknown Git LFS object:",
         "large file storage"),
        ("error: GH013: Repository rule violations found\nremote: - File path is restricted",
         "restricted path"),
        ("The organization has an IP allow list enabled, and your IP address is not permitted",
         "allow list"),
        ("POLICY: name a ticket of the tracker", "hook"),
        ("error: GH006: Protected branch update failed", "rule"),
        ("This repository was archived so it is read-only.", "archived"),
        ("- Commits must have verified signatures.", "signatures"),
    ],
)  # fmt: skip
def test_a_rule_is_told_apart(said: str, problem: str) -> None:
    refused = refuse(*said.split("\nremote: "))
    assert isinstance(refused, PushRejected)
    assert refused.facts.problem == problem
