"""Which merged pull requests were reverted, by the texts of commits and pull requests."""

import pytest

from bot.data.github_facts import CommitFacts, PullRequestFacts
from bot.outcomes import find_reverted


def sha(number: int) -> str:
    return f"{number:02}" + "ab" * 19


def pull(number: int, body: str = "", *, merged: bool = True) -> PullRequestFacts:
    """Merged at minute `number`, as commit 10 + `number`; its branch ends with 50 + `number`."""
    return PullRequestFacts.model_validate(
        {
            "number": number, "html_url": "", "state": "closed", "body": body,
            "head": {"ref": "x", "sha": sha(50 + number)},
            "merged_at": f"2026-01-01T00:{number:02}:00Z" if merged else None,
        }
    )  # fmt: skip


def commit(number: int, message: str) -> CommitFacts:
    """Made at minute `number`."""
    at = f"2026-01-01T00:{number:02}:00Z"
    facts = {"message": message, "author": {"email": ""}, "committer": {"date": at}}
    return CommitFacts.model_validate({"sha": sha(number), "commit": facts, "author": None})


def back(number: int) -> str:
    return f'Revert "Fix"\n\nThis reverts commit {sha(number)}.'


@pytest.mark.parametrize(
    ("pulls", "commits", "gone"),
    [
        ([pull(3)], [], set[int]()),
        ([pull(3)], [commit(20, back(13))], {3}),
        ([pull(3)], [commit(20, back(53))], {3}),
        ([pull(3)], [commit(20, f"This reverts commit {sha(13)[:9]} (Fix, 2026-01-01)")], {3}),
        ([pull(3)], [commit(20, back(13).replace(".", ", reversing\nchanges made to x."))], {3}),
        ([pull(3)], [commit(20, "Not to be confused: > This reverts commit")], set[int]()),
        ([pull(3), pull(5, "Reverts acme/shop#3")], [], {3}),
        ([pull(3)], [commit(20, 'Revert "Fix" (#5)\n\nReverts Acme/Shop#3')], {3}),
        ([pull(3), pull(5, "Reverts #3", merged=False)], [], set[int]()),
        ([pull(3), pull(5, "Reverts acme/other#3")], [], set[int]()),
        ([pull(3), pull(5, "Reverts acme/shop#33")], [], set[int]()),
        # Taken back, then put in again: by commits, by pull requests, and by both mixed.
        ([pull(3)], [commit(20, back(13)), commit(21, back(20))], set[int]()),
        ([pull(3)], [commit(20, back(13)), commit(21, back(20)), commit(22, back(21))], {3}),
        ([pull(3), pull(5, "Reverts #3"), pull(6, "Reverts #5")], [], {5}),
        ([pull(3), pull(5, "Reverts #3")], [commit(55, back(13)), commit(56, back(15))], {5}),
    ],
)
def test_reverted_pull_requests_are_found(
    pulls: list[PullRequestFacts], commits: list[CommitFacts], gone: set[int]
) -> None:
    merges = {sha(10 + one.number): one.number for one in pulls}
    assert find_reverted("acme/shop", pulls, commits, merges) == gone
    assert find_reverted("acme/shop", pulls[::-1], commits[::-1], merges) == gone
