"""Reads an issue and its repository from GitHub for `capuchin fix URL`; writes nothing there.

It uses the App's token where the App is installed, and no token elsewhere, which is enough for
public repositories.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bot.admission.issue_text import build_issue
from bot.cli.display import print_progress
from bot.cli.local_run import Start, WrongUsage, load_start, save_start, sha256_hex
from bot.data.github_facts import CommentFacts, IssueFacts, RepositoryFacts
from bot.data.run import Login
from bot.errors import Forbidden, NotFound
from bot.git.mirrors import Checkout, Mirrors, Remote
from bot.github.app import GitHubApp
from bot.github.credentials import InstallationCredential, NoCredential
from bot.github.http import GitHubClient, api_path
from bot.settings import Settings
from pipeline.data.types import Issue
from pipeline.store import Store

REMOTE_ISSUE_KEY = "asked"
TRUSTED_ASSOCIATIONS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Values of GitHub's `author_association` whose comments a model may read."""
COMMENT_PAGES = 5
_ISSUE_PATH = re.compile(
    r"/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)/issues/(?P<number>\d{1,9})/?", re.A
)


async def load_or_fetch_issue(
    url: str, settings: Settings, out: Path, store: Store
) -> tuple[Issue, Start, Checkout, Remote]:
    """The issue as it was first read, the commit that the run works on, and where it is from.

    Raises:
        WrongUsage: `url` is not a readable issue, or `out` contains another run.
        GitHubError: GitHub is unavailable or rejects the request.
        RepositoryGone, RepositoryEmpty: the repository cannot be cloned.
    """
    root = settings.github_url.rstrip("/")
    owner, name, number = parse_issue_url(url, root)
    where = f"{root}/{owner}/{name}/issues/{number}"
    digest = sha256_hex(where.encode())
    credential = await _find_credential(settings, owner, name)
    token = credential.get_token if isinstance(credential, InstallationCredential) else None
    remote = Remote.on_github(root, f"{owner}/{name}", token)
    mirrors = Mirrors(out)
    start, issue = (
        await load_start(store, out, where, digest),
        await store.load(REMOTE_ISSUE_KEY, Issue),
    )
    if start is not None and issue is not None:
        found = await mirrors.checkout(remote, f"{owner}/{name}", "", base=start.base_commit)
        return issue, start, found, remote
    async with GitHubClient(root) as client:
        reader = _IssueReader(client, credential, owner, name)
        try:
            repository, issue = await reader.read(number)
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
    place = _ISSUE_PATH.fullmatch(url.partition("#")[0].partition("?")[0].removeprefix(root))
    if not url.startswith(f"{root}/") or place is None:
        raise WrongUsage(f"{url} is not an issue: give {root}/OWNER/NAME/issues/NUMBER.")
    return place["owner"], place["name"], int(place["number"])


async def _find_credential(
    settings: Settings, owner: str, name: str
) -> InstallationCredential | NoCredential:
    found = None
    if settings.github_app_id:
        found = await GitHubApp(settings).find_reading_credential(owner, name)
    return found or NoCredential()


class _IssueReader:
    """Reads one issue and its comments.

    Raises:
        GitHubError: GitHub is unavailable or rejects the request (all methods).
    """

    def __init__(
        self,
        client: GitHubClient,
        credential: InstallationCredential | NoCredential,
        owner: str,
        name: str,
    ) -> None:
        self._client = client
        self._credential = credential
        self._root = ("repos", owner, name)

    async def read(self, number: int) -> tuple[RepositoryFacts, Issue]:
        repository = RepositoryFacts.model_validate(await self._get())
        facts = IssueFacts.model_validate(await self._get("issues", number))
        if facts.pull_request is not None:
            raise WrongUsage(f"#{number} is a pull request, not an issue.")
        readable: list[CommentFacts] = []
        strangers = 0
        async for comment, association in self._read_comments(number):
            if (
                association in TRUSTED_ASSOCIATIONS
                or comment.author.casefold() == facts.author.casefold()
            ):
                readable.append(comment)
            else:
                strangers += 1
        if strangers:
            print_progress(f"Ignored comments by people outside the repository: {strangers}.")
        return repository, build_issue(repository.full_name, facts, readable, own_login=Login(""))

    async def _read_comments(self, number: int) -> AsyncIterator[tuple[CommentFacts, str]]:
        where = api_path(*self._root, "issues", number, "comments")
        async for item in self._client.paginate(where, self._credential, limit=COMMENT_PAGES):
            yield CommentFacts.model_validate(item), str(item.get("author_association", ""))

    async def _get(self, *segments: str | int) -> Any:
        answer = await self._client.send("GET", api_path(*self._root, *segments), self._credential)
        return answer.data
