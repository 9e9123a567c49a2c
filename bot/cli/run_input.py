"""What `fix` and `select` work on: an issue and a commit, from this machine or from GitHub.

A repository on this machine is read like a remote one, so that none of its programs run: its
`.git/config` can name some (filters, monitors, remotes), and any folder of a clone can pose as such
a `.git`. Git never works inside it; it fetches commits, reading only objects and refs.

From GitHub, an issue and its repository are read with the App's token if the App is installed, else
without a token, which is enough for public repositories. Nothing is written there.
"""

import asyncio
import codecs
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.admission.issue_text import build_issue, count_unread, leave_out_form
from bot.cli.display import print_progress
from bot.comments.status import omissions_note
from bot.data.github_facts import CommentFacts, IssueFacts, RepositoryFacts
from bot.data.run import Login, RunId, SkippedComments
from bot.errors import BotError, Forbidden, NotFound
from bot.git.mirrors import Checkout, Mirrors, Remote
from bot.github.app import GitHubApp
from bot.github.credentials import InstallationCredential, TokenCredential
from bot.github.http import GitHubClient
from bot.settings import Settings
from bot.visible_text import visible_text
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, create_bare, git, trust_owner_of
from pipeline.data.types import CommitSha, Issue
from pipeline.languages.registry import main_language
from pipeline.run_errors import OtherFormat
from pipeline.store import Store
from prompts.text import strip_invisible
from sandbox.frozen import Frozen
from sandbox.scratch import scratch_folder

MAX_ISSUE_BYTES = 1024 * 1024
REMOTE_ISSUE_KEY = "asked"
_TRANSPORT: Final = ("protocol.file.allow=always",)
_LIST_SECONDS: float = 60.0


class WrongUsage(BotError):
    """The command cannot start; `str(error)` says what to change."""


class Start(Frozen):
    """The start of a run, saved so that the same `--out` continues it."""

    repository: str
    issue: str
    """SHA-256 of the input: the issue file, and the edits if there are any."""
    base_commit: CommitSha

    @property
    def run_id(self) -> RunId:
        """The same every time the run is continued."""
        return RunId(f"cli-{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]}")


def read_issue(path: Path) -> tuple[Issue, str]:
    """Read the issue file, whose first line is the title; return the issue and the file's SHA-256.

    `build_job` adds the repository's name.

    Raises:
        WrongUsage: the file is unreadable, too large, not text, or empty.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ISSUE_BYTES + 1)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}.") from None
    if len(data) > MAX_ISSUE_BYTES:
        raise WrongUsage(f"{path} is larger than {MAX_ISSUE_BYTES // 1024} KiB: shorten its logs.")
    try:
        is_utf16 = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # some shells write it
        text = data.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUsage(f"{path} is not text in UTF-8 or UTF-16.") from None
    first, _, rest = text.strip().partition("\n")
    # Without a heading's mark; else as it is, as GitHub shows a title: `a/<b>/c`.
    title = strip_invisible(re.sub(r"^#{1,6} ", "", first)).strip()
    if not title:
        raise WrongUsage(f"{path} is empty: its first line must be the issue's title.")
    issue = Issue(repository="", title=title, body=leave_out_form(visible_text(rest))[0])
    _tell_unread(rest)
    return issue, hashlib.sha256(data).hexdigest()


async def load_or_create_start(repo: Path, digest: str, out: Path, store: Store) -> Start:
    """The start saved in `out`, or a new one at the repository's last commit.

    Raises:
        WrongUsage: `out` contains another run or is not writable, or the repository has no commits
            or cannot be read.
    """
    if out == repo:
        raise WrongUsage(f"{out} is the repository itself: choose another --out.")
    start = await load_start(store, out, str(repo), digest)
    if start is not None:
        return start
    head = (await list_refs(repo)).get("HEAD")
    if head is None:
        raise WrongUsage(f"{repo} has no commits yet: commit its files first.")
    print_progress(f"Working on the last commit, {head[:10]}; what is not committed is left out.")
    start = Start(repository=str(repo), issue=digest, base_commit=head)
    await save_start(store, out, start)
    return start


async def load_start(store: Store, out: Path, repository: str, digest: str) -> Start | None:
    """The start saved in `out`, if any.

    Raises:
        WrongUsage: it belongs to another run, or cannot be read.
    """
    try:
        start = await store.load("start", Start)
    except OSError as error:
        raise WrongUsage(f"Cannot read {out}: {error.strerror}.") from None
    except OtherFormat as error:
        raise WrongUsage(f"{out}: {error} Choose another --out for that.") from None
    if start is None:
        return None
    if (start.repository, start.issue) != (repository, digest):
        raise WrongUsage(f"{out} contains another run: choose another --out.")
    print_progress(f"Going on in {out}, with commit {start.base_commit[:10]}.")
    return start


async def save_start(store: Store, out: Path, start: Start) -> None:
    """Save `start` in `out`.

    Raises:
        WrongUsage: `out` is not writable.
    """

    def create_folder() -> None:
        out.mkdir(parents=True, exist_ok=True)
        if not any(out.iterdir()):  # inside a repository, git ignores the results
            (out / ".gitignore").write_text("*\n", encoding="ascii")

    try:
        await asyncio.to_thread(create_folder)
        await store.save("start", start)
    except OSError as error:
        raise WrongUsage(f"Cannot write {out}: {error.strerror}.") from None


async def load_or_fetch_issue(
    url: str, settings: Settings, out: Path, store: Store
) -> tuple[Issue, Start, Checkout, Remote]:
    """The issue as first read, the commit to work on, its checkout, and the remote.

    Raises:
        WrongUsage: `url` is not a readable issue, or `out` contains another run.
        GitHubError: GitHub is unavailable or rejects the request.
        RepositoryGone, RepositoryEmpty: the repository cannot be cloned.
    """
    root = settings.github_url.rstrip("/")
    owner, name, number = parse_issue_url(url, root)
    where = f"{root}/{owner}/{name}/issues/{number}"
    digest = hashlib.sha256(where.encode()).hexdigest()
    credential = (
        await GitHubApp(settings).find_reading_credential(owner, name)
        if settings.github_app_id
        else None
    ) or TokenCredential()
    token = credential.get_token if isinstance(credential, InstallationCredential) else None
    remote = Remote.on_github(root, f"{owner}/{name}", token)
    mirrors = Mirrors(settings.data_dir)
    start = await load_start(store, out, where, digest)
    issue = await store.load(REMOTE_ISSUE_KEY, Issue)
    if start is not None and issue is not None:
        found = await mirrors.checkout(remote, f"{owner}/{name}", "", base=start.base_commit)
        return issue, start, found, remote
    async with GitHubClient(root, credential, "repos", owner, name) as client:
        try:
            repository, issue = await _read_remote_issue(client, number)
        except (NotFound, Forbidden):
            raise WrongUsage(
                f"Cannot read {where}: the issue does not exist, or the repository is private and "
                "the App of CAPUCHIN_GITHUB_APP_ID is not installed on it."
            ) from None
    found = await mirrors.checkout(remote, repository.full_name, repository.default_branch)
    start = Start(repository=where, issue=digest, base_commit=found.base)
    await store.save(REMOTE_ISSUE_KEY, issue)
    await save_start(store, out, start)
    return issue, start, found, remote


def parse_issue_url(url: str, root: str) -> tuple[str, str, int]:
    """The owner, the repository's name and the number. Raises WrongUsage: not a URL of `root`'s."""
    if short := re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d{1,9})", url, re.A):
        url = f"{root}/{short[1]}/issues/{short[2]}"
    path = url.partition("#")[0].partition("?")[0].removeprefix(root)
    place = re.fullmatch(r"/([\w.-]+)/([\w.-]+)/issues/(\d{1,9})/?", path, re.A)
    if not url.startswith(f"{root}/") or place is None:
        raise WrongUsage(
            f"{url} is not an issue: give {root}/OWNER/NAME/issues/NUMBER or OWNER/NAME#NUMBER."
        )
    return place[1], place[2], int(place[3])


def parse_repository_url(url: str, root: str) -> tuple[str, str, int]:
    """As `parse_issue_url`, for any address in a repository; the number is 0 without one."""
    path = url.partition("#")[0].partition("?")[0].removeprefix(root)
    place = re.match(r"/([\w.-]+)/([\w.-]+)(?:/(?:issues|pull)/(\d{1,9}))?(?:/|$)", path, re.A)
    if not url.startswith(f"{root}/") or place is None:
        raise WrongUsage(f"{url} is not in a repository of {root}.")
    return place[1], place[2], int(place[3] or 0)


async def _read_remote_issue(client: GitHubClient, number: int) -> tuple[RepositoryFacts, Issue]:
    """Read an issue with the comments by its author and by the people of the client's repository.

    Raises:
        GitHubError: GitHub is unavailable or rejects the request.
    """
    repository = RepositoryFacts.model_validate(await client.get())
    facts = IssueFacts.model_validate(await client.get("issues", number))
    if facts.pull_request is not None:
        raise WrongUsage(f"#{number} is a pull request, not an issue.")
    readable: list[CommentFacts] = []
    strangers = 0
    async for item in client.paginate("issues", number, "comments", limit=5):
        comment = CommentFacts.model_validate(item)
        is_author = comment.author.casefold() == facts.author.casefold()
        if is_author or item.get("author_association") in ("OWNER", "MEMBER", "COLLABORATOR"):
            readable.append(comment)
        else:
            strangers += 1
    if strangers:
        print_progress(f"Ignored comments by people outside the repository: {strangers}.")
    issue = build_issue(repository.full_name, facts, readable, own_login=Login(""))
    _tell_unread(facts.body or "", *(one.body or "" for one in readable))
    return repository, issue


def _tell_unread(body: str, *comments: str) -> None:
    """Say what is not read of an issue."""
    if note := omissions_note(count_unread(SkippedComments(), body, comments)):
        print_progress(note)


async def find_repository(folder: Path) -> Path:
    """The absolute path of the repository around `folder`: its top level, or the bare repository.

    Raises:
        WrongUsage: `folder` is not a directory, or not in a repository.
    """

    def find() -> Path:
        if not folder.is_dir():
            raise WrongUsage(f"{folder} is not a directory.")
        place = folder.resolve()
        if all((place / name).exists() for name in ("HEAD", "objects", "refs")):
            return place
        for parent in (place, *place.parents):
            if (parent / ".git").exists():
                return parent
        raise WrongUsage(
            f"{folder} is not a git repository: run `git init` there and commit its files."
        )

    place = await asyncio.to_thread(find)
    if await asyncio.to_thread(_owner_of, place) not in (os.geteuid(), _sudo_user()):
        if not await _trusts(place):
            raise WrongUsage(
                f"{place} belongs to another user, whose repository may name programs that git "
                f"runs. If you trust it: git config --global --add safe.directory '{place}'"
            )
        trust_owner_of(place)
    elif os.geteuid() != await asyncio.to_thread(_owner_of, place):
        trust_owner_of(place)  # git itself trusts the user behind sudo
    return place


def _owner_of(place: Path) -> int:
    inner = place / ".git"
    return (inner if inner.exists() else place).stat().st_uid


def _sudo_user() -> int | None:
    name = os.environ.get("SUDO_UID", "")  # noqa: TID251 - sudo's own variable
    return int(name) if name.isascii() and name.isdigit() and os.geteuid() == 0 else None


async def _trusts(place: Path) -> bool:
    """Whether the user's own git may read the repository at `place`, as `safe.directory` says."""
    process = await asyncio.create_subprocess_exec(
        "git", "config", "--type=path", "--null", "--get-all", "safe.directory",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    listed, _ = await process.communicate()
    trusted: list[str] = []
    for value in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        trusted = [*trusted, value] if value else []  # an empty one takes back those before it
    places = {str(place), f"{place}/.git"}
    return any(
        one == "*"
        or one.rstrip("/") in places
        or (one.endswith("/*") and str(place).startswith(one[:-1]))
        for one in trusted
    )


async def name_repository(repo: Path, codebase: Codebase) -> str:
    """For the model: `owner/name` of the remote, else the package's or the folder's name."""
    return (
        await asyncio.to_thread(_read_origin, repo)
        or await main_language(codebase).distribution(codebase)
        or repo.name
    )


def _read_origin(repo: Path) -> str:
    """`owner/name` of the remote `origin`; empty for a path on this machine."""
    config = repo / "config" if (repo / "config").is_file() else repo / ".git/config"
    try:
        with config.open(encoding="utf-8", errors="replace") as file:
            text = file.read(64 * 1024)
    except OSError:
        return ""
    section = re.split(r"(?m)^\s{0,20}\[", text.partition('[remote "origin"]')[2])[0]
    found = re.search(
        r"(?m)^\s{0,20}url\s{0,5}=\s{0,5}"
        r"(?:(?:https?|ssh|git)://[\w.@:/-]{1,200}?[/:]|[\w.-]{1,60}@[\w.-]{1,200}:)"
        r"([\w.-]{1,100})/([\w.-]{1,100})/?$",
        section,
    )
    return f"{found[1]}/{found[2].removesuffix('.git')}" if found else ""


async def list_refs(repo: Path) -> dict[str, CommitSha]:
    """The commits of all refs by their full names, and of `HEAD` if there is one.

    Raises:
        WrongUsage: git cannot read it.
    """
    try:
        async with asyncio.timeout(_LIST_SECONDS):
            listed = await git(None, "ls-remote", "--quiet", repo.as_uri(), config=_TRANSPORT)
    except TimeoutError:  # a file can be a pipe without a writer
        raise WrongUsage(f"{repo}: git could not list it in {_LIST_SECONDS:.0f} s.") from None
    except GitFailed as failure:
        fatal = [line for line in failure.words.splitlines() if line.startswith("fatal: ")]
        reason = (fatal or ["git cannot read it"])[0].removeprefix("fatal: ")
        raise WrongUsage(f"{repo}: {reason}") from None
    refs: dict[str, CommitSha] = {}
    for line in listed.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition("\t")
        refs[name.removesuffix("^{}")] = CommitSha(commit)  # a tag's commit comes after the tag
    return refs


def find_commit(refs: Mapping[str, CommitSha], name: str) -> CommitSha | None:
    """The commit of a branch, a tag or a full commit id; None if there is no such ref."""
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name):
        return CommitSha(name)
    places = ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/")  # gitrevisions(7)
    return next((refs[place + name] for place in places if place + name in refs), None)


async def fetch_local(repo: Path, base: CommitSha, settings: Settings) -> Checkout:
    """The commit `base` of a repository on this machine, in a mirror of our own.

    Raises:
        RepositoryGone, GitFailed: it is not there, or the repository is damaged.
    """
    place = hashlib.sha256(bytes(repo)).hexdigest()[:32]
    mirrors = Mirrors(settings.data_dir)
    return await mirrors.checkout(Remote(repo.as_uri()), f"{place}/local", "HEAD", base=base)


async def describe_commit(repo: Path, commit: CommitSha) -> str:
    """The output of `git describe` for a commit; empty without a reachable tag.

    Raises:
        GitFailed: the repository is damaged.
    """
    with scratch_folder("tags") as scratch:  # tags and commits are enough: fetch no files
        await create_bare(scratch, commit)
        await git(
            scratch, "fetch", "--quiet", "--tags", "--no-write-fetch-head", "--filter=tree:0",
            "--upload-pack", "git -c uploadpack.allowFilter=true upload-pack",
            "--no-recurse-submodules", "--end-of-options",
            repo.as_uri(), commit,
            config=_TRANSPORT,
        )  # fmt: skip
        return await Codebase(scratch, commit, {}).describe()


async def fetch_history(repo: Path, into: Path, commits: list[CommitSha]) -> None:
    """Fetch commits with their history into a new bare repository in the empty folder `into`.

    Raises:
        GitFailed: one of them is not there, or the repository is damaged.
    """
    await create_bare(into, commits[0] if commits else "")
    await git(
        into, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
        "--end-of-options", repo.as_uri(), *commits,
        config=_TRANSPORT,
    )  # fmt: skip
