"""Creates commits from diffs, merges with a newer base, in the repository's style.

https://developercertificate.org, https://www.conventionalcommits.org

Mirrors have no history, so both commits get the same artificial parent for the merge.

Every function that reads a repository raises `GitFailed` if it is damaged.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Self

from bot.data.github_facts import Identity
from bot.data.pull import CONVENTIONAL, CommitStyle
from bot.data.run import Login, now
from bot.errors import UnfitDiff
from bot.git.mirrors import Remote
from bot.github.http import log_act
from bot.github.repository import Repository
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.data.types import CommitSha
from sandbox.scratch import scratch_folder

DCO_FILES: Final = (".github/dco.yml", "dco", "dco.txt", ".dco")
GUIDES: Final = ("contributing.md", ".github/contributing.md", "docs/contributing.md", "agents.md",
                 "contributing.rst", "contributing.txt", "contributing", "claude.md")  # fmt: skip
_SIGN_OFF_DEMAND = re.compile(
    r"developer certificate of origin|\bDCO\b|signed-off-by|sign(ed)?[ -]off|git commit -s", re.I
)
_MACHINE = re.compile(r"\b(AI|LLMs?|agents?|bots?|models?|humans?)\b", re.I)
_DENIED = re.compile(r"\b(not|never|only)\b|n't\b", re.I)
_TICKET = re.compile(r"(\[?)([A-Z][A-Z0-9]{1,9})-\d{1,7}(\]?:? )(?=\S)")
_SIGN_OFF_TRAILER = re.compile(r"^Signed-off-by: ", re.M)
_MERGE_COMMIT = re.compile(r"Merge (pull request|branch|remote-tracking|tag|commit)\b")


async def detect_commit_style(
    repo: Repository,
    commits: tuple[str, ...] | None,
    codebase: Codebase | None = None,
    issue: str = "",
) -> CommitStyle:
    """The style by the key `commits`, the repository's files and its latest commits.

    Without a `codebase` it looks for one file only, which it asks GitHub for. Where titles begin
    with a ticket, the one that the text of the `issue` names is taken.

    Raises:
        GitHubError: from reading the repository.
    """
    messages = [
        message for message in await repo.list_recent_messages() if not _MERGE_COMMIT.match(message)
    ]
    demanded = await (_has_dco_file(repo) if codebase is None else _demands_sign_off(codebase))
    if demanded is None:
        demanded = _is_habit(messages, _SIGN_OFF_TRAILER.search)
    bare = [_TICKET.sub("", message, count=1) for message in messages]
    found = CommitStyle(
        signed_off=demanded,
        conventional=_is_habit(bare, CONVENTIONAL.match),
        ticket=_find_ticket(messages, issue),
    )
    return found.with_settings(commits)


def _find_ticket(messages: Sequence[str], issue: str) -> str:
    """What titles begin with, in the form of the latest, with the ticket that the issue names;
    empty without one, or without that habit."""
    found = [match for match in map(_TICKET.match, messages) if match]
    if not _is_habit(messages, _TICKET.match):
        return ""
    projects = {match[2] for match in found}
    for named in re.finditer(r"\b([A-Z][A-Z0-9]{1,9})-\d{1,7}\b", issue):
        if named[1] in projects:  # UTF-8 is none
            return f"{found[0][1]}{named[0]}{found[0][3]}"
    return ""


async def _has_dco_file(repo: Repository) -> bool | None:
    return True if await repo.read_file(*DCO_FILES[0].split("/")) is not None else None


async def _demands_sign_off(codebase: Codebase) -> bool | None:
    """Whether commits of ours are to be signed off; None where no file says."""
    by_name = {path.lower(): path for path in codebase.files}
    guides = [await codebase.read_text(by_name[name]) for name in GUIDES if name in by_name]
    if any(_keeps_for_people(line) for text in guides if text for line in text.splitlines()):
        return False
    if any(name in by_name for name in DCO_FILES):
        return True
    return True if any(text and _SIGN_OFF_DEMAND.search(text) for text in guides) else None


def _keeps_for_people(line: str) -> bool:
    """Such as "If you are a LLM, you MUST NOT include a `Signed-off-by`"."""
    return all(one.search(line) for one in (_SIGN_OFF_DEMAND, _MACHINE, _DENIED))


def _is_habit(messages: Sequence[str], does: Callable[[str], object]) -> bool:
    matches = [bool(does(message)) for message in messages]
    return len(matches) >= 4 and sum(matches) > 0.5 * len(matches)  # fewer show no habit


MAX_SLUG_CHARACTERS = 40
_FORBIDDEN = re.compile(rb"(^|/)\.git(/|$)|^\.github/", re.I)


_UNFIT_DIFF = re.compile(
    r"invalid path|does not apply|in index|in working dir|corrupt patch|no valid patch"
)


def branch_name(prefix: str, issue: int, title: str, attempt: int = 1) -> str:
    """`PREFIXissue-N-slug` in ASCII; with `-2` and so on for a later attempt."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(slug) > MAX_SLUG_CHARACTERS:
        slug = slug[: MAX_SLUG_CHARACTERS + 1].rpartition("-")[0] or slug[:MAX_SLUG_CHARACTERS]
    words = [f"{prefix}issue-{issue}", slug, str(attempt) if attempt > 1 else ""]
    return "-".join(word for word in words if word)


async def create_commit(
    git_dir: Path, *, parent: CommitSha, diff: str, message: str, author: Identity, at: datetime
) -> CommitSha:
    """Commit `diff` on top of `parent` and return the SHA; equal arguments yield equal SHAs.

    Raises:
        UnfitDiff: the diff does not apply, or changes `.git` or `.github`.
    """
    with scratch_folder("index") as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        await git(git_dir, "read-tree", parent, env=index)
        await _apply_diff(git_dir, diff, index)
        tree = (await git(git_dir, "write-tree", env=index)).decode().strip()
    changed = await git(
        git_dir, "diff-tree", "-r", "-z", "--no-renames", "--name-only", parent, tree
    )
    if any(_FORBIDDEN.search(path) for path in changed.split(b"\0")):
        raise UnfitDiff("it changes a path that no edit may change")
    return await _commit_tree(git_dir, tree, message, signature_env(author, at), parent)


async def commit_files(
    git_dir: Path, *parents: CommitSha, files: CommitSha, message: str, author: Identity,
    at: datetime,
) -> CommitSha:  # fmt: skip
    """Commit the files of the commit `files` on top of `parents`, two for a merge; its SHA."""
    tree = (await read_commit(git_dir, files)).tree
    return await _commit_tree(git_dir, tree, message, signature_env(author, at), *parents)


class StoredCommit(NamedTuple):
    tree: str
    parents: tuple[CommitSha, ...]
    message: str


async def list_commits(git_dir: Path, *, since: CommitSha, head: CommitSha) -> list[CommitSha]:
    """The commits from `since`, which is left out, to `head`, along first parents, oldest first."""
    listing = await git(git_dir, "rev-list", "--reverse", "--first-parent", f"{since}..{head}")
    return [CommitSha(sha) for sha in listing.decode().split()]


async def read_commit(git_dir: Path, commit: CommitSha) -> StoredCommit:
    """A commit of ours. Raises GitFailed: there is no such commit."""
    raw = (await git(git_dir, "cat-file", "commit", commit)).decode("utf-8", "replace")
    head, _, message = raw.partition("\n\n")
    fields = [line.split(" ", 1) for line in head.split("\n")]
    parents = tuple(CommitSha(value) for name, value in fields if name == "parent")
    return StoredCommit(fields[0][1], parents, message)


async def list_changed_files(
    git_dir: Path, before: CommitSha, after: CommitSha
) -> list[tuple[str, str, str | None]]:
    """Path, mode and object of each file of `after` that differs from `before`; of one that is
    gone, no object.

    Raises:
        GitFailed: the repository is damaged. UnicodeDecodeError: a path is not UTF-8.
    """
    raw = await git(git_dir, "diff-tree", "-r", "-z", "--no-renames", before, after)
    fields = raw.decode().split("\0")[:-1]
    found: list[tuple[str, str, str | None]] = []
    for facts, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, _, blob, status = facts.lstrip(":").split()
        gone = status == "D"
        found.append((path, old_mode if gone else new_mode, None if gone else blob))
    return found


async def replay_commits(
    git_dir: Path, *, onto: CommitSha, since: CommitSha, head: CommitSha, identity: Identity
) -> CommitSha | None:
    """Put the changes from `since` to `head`, commit by commit, on `onto`; None if one conflicts.

    Authors, dates and messages stay, so that equal arguments yield equal SHAs.
    """
    if onto == since:
        return head
    before = since
    for commit in await list_commits(git_dir, since=since, head=head):
        merged = await merge_commits(
            git_dir, base=before, ours=commit, theirs=onto, identity=identity
        )
        if merged is None:
            return None
        tree = (await read_commit(git_dir, merged)).tree
        raw = await git(git_dir, "cat-file", "commit", commit)
        rest = raw.split(b"\n", 2)[2]  # ours have a tree and one parent
        copy = f"tree {tree}\nparent {onto}\n{rest.decode()}"
        before, onto = commit, await write_commit(git_dir, copy)
    return onto


class SigningKey(NamedTuple):
    """An operator's SSH key. Only its path is known here: ssh-keygen(1) alone reads it."""

    email: str
    """The committer's address, by which GitHub finds the account that has the key."""
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of `CAPUCHIN_SIGNING_KEY`, which the settings have checked."""
        return cls(*text.split(":", 1))


async def sign_commits(
    git_dir: Path, key: SigningKey, *, since: CommitSha, head: CommitSha
) -> list[str]:
    """Write copies of our commits from `since`, left out, to `head`, signed by `key`.

    The last is the copy of `head`. Each is a commit object for `write_commit`: another call may
    sign them otherwise.

    Raises:
        GitFailed: the key cannot be read or needs a passphrase, or the repository is damaged.
    """
    copies: dict[CommitSha, CommitSha] = {}
    written: list[str] = []
    for commit in await list_commits(git_dir, since=since, head=head):
        facts = await git(git_dir, "log", "-1", "--date=raw", "--format=%an%n%ae%n%ad", commit)
        name, email, at = facts.decode().split("\n")[:3]
        signature = {
            "GIT_AUTHOR_NAME": name, "GIT_COMMITTER_NAME": name,
            "GIT_AUTHOR_EMAIL": email, "GIT_COMMITTER_EMAIL": key.email,
            "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at,
        }  # fmt: skip
        stored = await read_commit(git_dir, commit)
        parents = [copies.get(parent, parent) for parent in stored.parents]
        copies[commit] = await _commit_tree(
            git_dir, stored.tree, stored.message, signature, *parents, signed_by=key.path
        )
        written.append((await git(git_dir, "cat-file", "commit", copies[commit])).decode())
    return written


async def try_key(key: SigningKey) -> None:
    """Sign a commit that nobody gets. Raises GitFailed: the key cannot be read or signs nothing."""
    with scratch_folder("signature") as folder:
        await git(None, "init", "--quiet", "--bare", "--template=", str(folder))
        tree = (await git(folder, "mktree", input=b"")).decode().strip()
        signature = signature_env(Identity(app=0, login=Login("doctor"), email=key.email), now())
        await _commit_tree(folder, tree, "Try", signature, signed_by=key.path)


async def write_commit(git_dir: Path, commit: str) -> CommitSha:
    """Write a commit object; its SHA. Raises GitFailed: the repository is damaged."""
    options = ("-t", "commit", "-w", "--stdin")
    made = await git(git_dir, "hash-object", *options, input=commit.encode())
    return CommitSha(made.decode().strip())


async def have_same_workflows(git_dir: Path, one: CommitSha, other: CommitSha) -> bool:
    """Whether an App without `workflows` may push `one` where `other` is the default head."""
    found = [await git(git_dir, "ls-tree", "-z", sha, ".github/workflows") for sha in (one, other)]
    return found[0] == found[1]


async def push(
    git_dir: Path, remote: Remote, *, sha: CommitSha, branch: str, expected: CommitSha | None
) -> None:
    """Set the remote's branch to `sha`; `expected` is its current SHA, None for a new branch.

    Raises:
        PushRejected: the branch has moved, or the repository's rules forbid the push.
        RepositoryGone: the repository no longer exists.
        GitHubUnavailable: the remote does not respond.
        GitFailed: any other failure.
    """
    ref = f"refs/heads/{branch}"
    await remote.git(
        git_dir, "push", "--quiet", "--no-verify", "--no-follow-tags",
        "--recurse-submodules=no", f"--force-with-lease={ref}:{expected or ''}",
        remote.url, f"{sha}:{ref}",
    )  # fmt: skip
    log_act(f"git push {sha} {ref}")


async def _commit_tree(
    git_dir: Path, tree: str, message: str, signature: Mapping[str, str], *parents: CommitSha,
    signed_by: str = "",
) -> CommitSha:  # fmt: skip
    """`signed_by` is the path of an SSH key."""
    given = [word for parent in parents for word in ("-p", parent)]
    config = ("gpg.format=ssh", f"user.signingKey={signed_by}") if signed_by else ()
    made = await git(
        git_dir, "commit-tree", tree, *given, *(["-S"] if signed_by else []),
        input=message.encode(), env=signature, config=config,
    )  # fmt: skip
    return CommitSha(made.decode().strip())


async def _apply_diff(git_dir: Path, diff: str, index: Mapping[str, str]) -> None:
    try:
        await git(
            git_dir, "apply", "--cached", "--whitespace=nowarn", "-",
            input=diff.encode(), env=index,
        )  # fmt: skip
    except GitFailed as failure:
        if _UNFIT_DIFF.search(failure.words):
            raise UnfitDiff("it does not apply") from failure
        raise


def signature_env(author: Identity, at: datetime) -> dict[str, str]:
    when = f"{int(at.astimezone(UTC).timestamp())} +0000"
    return {
        "GIT_AUTHOR_NAME": author.login,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": author.login,
        "GIT_COMMITTER_EMAIL": author.email,
        "GIT_COMMITTER_DATE": when,
    }


async def merge_commits(
    git_dir: Path, *, base: CommitSha, ours: CommitSha, theirs: CommitSha, identity: Identity
) -> CommitSha | None:
    """Apply the changes from `base` to `ours` to `theirs`: a commit of which only the files are
    relevant; None if they conflict.

    It merges like GitHub (git-merge-tree(1)); the repository contains all three commits.
    """
    if theirs == base:
        return ours
    root = await _commit_copy(git_dir, base, identity)
    left = await _commit_copy(git_dir, theirs, identity, root)
    right = await _commit_copy(git_dir, ours, identity, root)
    try:
        found = await git(git_dir, "merge-tree", "--write-tree", left, right)
    except GitFailed as failure:
        if failure.status == 1:
            return None
        raise
    tree = found.decode().split("\n", 1)[0].strip()
    return await _merge_commit_tree(git_dir, tree, identity)


async def is_merge_of(
    git_dir: Path,
    merge: CommitSha,
    *,
    base: CommitSha,
    ours: CommitSha,
    theirs: CommitSha,
    identity: Identity,
) -> bool:
    """Whether `merge` holds what git makes of the two by itself. As `merge_commits`."""
    both = await merge_commits(git_dir, base=base, ours=ours, theirs=theirs, identity=identity)
    if both is None:
        return False
    trees = [(await read_commit(git_dir, commit)).tree for commit in (merge, both)]
    return trees[0] == trees[1]


async def read_changes(before: Codebase, after: Codebase) -> dict[str, bytes | None]:
    """The files that differ in `after`, by path; None for a deleted file."""
    ours = {path: (file.blob, file.mode) for path, file in after.files.items() if file.regular}
    olds = {path: (file.blob, file.mode) for path, file in before.files.items() if file.regular}
    new = [path for path in ours if olds.get(path) != ours[path]]
    gone: dict[str, bytes | None] = {path: None for path in olds if path not in ours}
    return {**await after.read_all(new), **gone}


async def _commit_copy(
    git_dir: Path, commit: CommitSha, identity: Identity, *parents: CommitSha
) -> CommitSha:
    return await _merge_commit_tree(git_dir, f"{commit}^{{tree}}", identity, *parents)


async def _merge_commit_tree(
    git_dir: Path, tree: str, identity: Identity, *parents: CommitSha
) -> CommitSha:
    name = (await git(git_dir, "rev-parse", "--verify", tree)).decode().strip()
    env = signature_env(identity, datetime(2000, 1, 1, tzinfo=UTC))  # equal files, equal commit
    return await _commit_tree(git_dir, name, "", env, *parents)
