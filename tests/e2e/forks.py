"""Pull requests from a fork that nobody here knows."""

from capuchin_demo.hub.git_repository import Signature
from capuchin_demo.hub.pull_actions import NewPull, open_pull
from capuchin_demo.hub.state import Pull, Repo, now
from tests.support.github.hub import LocalHub


async def fork_pull(
    hub: LocalHub, repo: Repo, entries: dict[str, tuple[str, str]], branch: str = "patch-1"
) -> Pull:
    """mallory's; `entries`: path to mode and content (or commit)."""
    git, who = repo.git, hub.add_user("mallory")
    base = git.resolve("main")
    assert base is not None
    blobs = {
        path: (mode, text if mode == "160000" else git.write_blob(text.encode()))
        for path, (mode, text) in entries.items()
    }
    tree = git.write_paths(git.read_commit(base).tree, blobs)
    by = Signature("mallory", "m@example.com", now())
    sha = git.write_commit(tree, [base], "Trust me\n", by, by)
    name = f"mallory/{repo.name}"
    fork = hub.repos.get(name) or hub.add_repo(name, {})
    asked = NewPull("Trust me", "", branch, "main", fork=(fork, sha))
    pull = await open_pull(hub, repo, asked, who)
    await hub.wait_until_delivered()
    return pull
