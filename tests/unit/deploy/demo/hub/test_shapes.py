"""The demo's JSON is a part of what GitHub sends, so that the bot reads the same from both."""

from __future__ import annotations

from typing import Any, cast

from capuchin_demo.hub import issue_actions
from capuchin_demo.hub.git_compare import changed_files
from capuchin_demo.hub.pull_actions import NewPull, open_pull
from capuchin_demo.hub.shapes import Shapes
from capuchin_demo.hub.state import User
from tests.support.github.check_actions import create
from tests.support.github.hub import LocalHub


def find_differences(small: Any, large: Any, place: str = "") -> list[str]:
    if isinstance(small, dict) and isinstance(large, dict):
        whole = cast("dict[str, Any]", large)
        return [
            found
            for key, value in cast("dict[str, Any]", small).items()
            for found in find_differences(value, whole.get(key, "nothing"), f"{place}.{key}")
        ]
    if isinstance(small, list) and isinstance(large, list):
        pairs = zip(cast("list[Any]", small), cast("list[Any]", large), strict=True)
        return [found for one, other in pairs for found in find_differences(one, other, place)]
    return [] if small == large else [f"{place}: {small!r} is {large!r}"]


async def test_each_shape_is_a_part_of_githubs(hub: LocalHub) -> None:
    repo = hub.add_repo("acme/shop", {"shop.py": "a\n"})
    alice: User = hub.add_user("alice")
    issue = await hub.open_issue(repo, "A bug", "It fails.", labels=["bug"])
    await hub.assign(issue, "alice", by="alice")
    comment = await hub.comment(issue, "Yes.", "bob")
    reaction, _ = issue_actions.react(hub, comment.reactions, "eyes", alice)
    await hub.commit(repo, "fix", {"shop.py": "b\n"}, "Fix", "alice")
    pull = await open_pull(hub, repo, NewPull("Fix", "Fixes #1.", "fix", "main"), hub.bot)
    review = await hub.review(pull, "alice", "No.", "CHANGES_REQUESTED")
    run = create(hub, repo, pull.head_sha, {"name": "evidence", "conclusion": "success"}, hub.bot)
    await hub.close_issue(issue, by="alice")
    git = repo.git
    head, entry = git.read_commit(pull.head_sha), git.find_entry("fix", "shop.py")
    assert repo.installation is not None
    assert entry is not None
    (change,) = changed_files(pull)
    arguments: dict[str, tuple[Any, ...]] = {
        "user": (alice,),
        "app": (hub.app,),
        "installation": (repo.installation,),
        "repository": (repo,),
        "label": (repo, repo.labels["bug"]),
        "permission": (repo, alice),
        "issue": (issue,),
        "labels": (issue,),
        "comment": (comment,),
        "reaction": (reaction,),
        "history_event": (issue, next(one for one in issue.timeline if one.event)),
        "cross_reference": (pull,),
        "simple_pull": (pull,),
        "pull": (pull,),
        "review": (pull, review),
        "push": (repo, "refs/heads/fix", pull.base_sha, pull.head_sha, alice),
        "ref": (repo, "refs/heads/fix", pull.head_sha),
        "git_commit": (repo, head),
        "commit": (repo, head, None),
        "tree": (repo, head.tree, git.list_entries(head.tree)),
        "branch": (repo, "fix", pull.head_sha),
        "file": (entry, b"b\n"),
        "diff_entry": (repo, change, pull.head_sha),
        "check_run": (repo, run, hub.app),
    }
    assert arguments.keys() == {name for name in vars(Shapes) if not name.startswith("_")}
    for name, given in arguments.items():
        small, large = (getattr(kind, name)(*given) for kind in (Shapes(), hub.shapes))
        assert find_differences(small, large) == [], name
