"""Closed issues of repositories on GitHub, with the pull requests that closed them.

Each repository is cloned and read for itself, and what is read is kept: a later call goes on, and
asks only for what has changed.
"""

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from bot.cli.display import print_progress
from bot.data.run import now
from bot.errors import BotError, GitHubError, GitHubUnavailable, RateLimited
from bot.git.mirrors import Remote
from bot.github.credentials import TokenCredential
from bot.github.http import MAX_PAGES, PER_PAGE, GitHubClient, api_path
from bot.settings import Settings
from pipeline.codebase.git import GitFailed, git
from pipeline.lab.dataset import BadData
from pipeline.lab.learning.collect import (
    CollectReport,
    IssueRow,
    find_closed,
    read_history,
)
from pipeline.lab.learning.records import LearningData
from pipeline.lab.learning.training_rows import is_benchmarked
from pipeline.lab.recall import find_clone
from pipeline.store import Store
from prompts.text import pluralize
from sandbox.frozen import Frozen, replace

FEWEST_STARS: Final = 1001
"""SWE-Reasoner, section 3.1: repositories with more than 1,000 stars."""


class Listed(Frozen):
    """The closed issues of a repository, and which of its merged pull requests closes which."""

    asked: str = ""
    """When GitHub was asked last."""
    issues: dict[int, IssueRow] = Field(default_factory=dict[int, IssueRow])
    closing: dict[int, int] = Field(default_factory=dict[int, int])
    added_at: str = ""
    """The clone's commit with which they were added to the data; empty: they were not."""


@dataclass(frozen=True)
class GitHubReader:
    """Reads repositories with one token. `store` keeps what was read of each."""

    client: GitHubClient
    settings: Settings
    trees: Path
    store: Store

    async def find_popular(self, top: int) -> list[str]:
        """The public Python repositories with the most stars, without those of SWE-bench and
        without forks.

        GitHub shows the first 1,000 of a search, so that each further one begins with the stars
        at which the last has ended.
        """
        found: dict[str, None] = {}
        seen, most = set[str](), "*"
        while len(found) < top:
            known = len(seen)
            asked = {"q": f"language:Python stars:{FEWEST_STARS}..{most}", "sort": "stars"}
            async for item in self._list("/search/repositories", asked, "items"):
                name, most = str(item["full_name"]), str(item["stargazers_count"])
                seen.add(name)
                if not is_benchmarked(name):
                    found[name] = None
            if len(seen) == known:
                break
        return list(found)[:top]

    async def read(self, repository: str) -> tuple[LearningData, CollectReport] | None:
        """Its solved issues; None where nothing has changed since they were added.

        Raises:
            BadData: its clone cannot be read.
            GitHubError, BotError: GitHub refuses, or does not answer.
        """
        old = await self.store.load(_key(repository), Listed) or Listed()
        listed = await self._list_closed(repository, old)
        head = await self._find_head(repository)
        if listed.issues == old.issues and listed.closing == old.closing and old.added_at == head:
            return None
        await self.store.save(_key(repository), replace(listed, added_at=""))
        rows = [
            replace(row, pull=listed.closing.get(number)) for number, row in listed.issues.items()
        ]
        print_progress(f"{repository}: {pluralize(len(rows), 'closed issue')}.")
        return await read_history(rows, self.trees)

    async def mark_added(self, repository: str) -> None:
        """Keep in mind that what `read` returned is in the data."""
        head = await self._find_head(repository)
        listed = await self.store.load(_key(repository), Listed) or Listed()
        await self.store.save(_key(repository), replace(listed, added_at=head))

    async def _find_head(self, repository: str) -> str:
        """The commit of the bare clone in `trees`, which is made if it is missing."""
        clone = find_clone(self.trees, repository) or await self._clone(repository)
        return (await git(clone, "rev-parse", "HEAD")).decode().strip()

    async def _clone(self, repository: str) -> Path:
        place = self.trees / f"{repository.replace('/', '__')}.git"
        scratch = self.trees / f".{place.name}.tmp"
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        self.trees.mkdir(parents=True, exist_ok=True)
        print_progress(f"{repository}: cloning …")
        token = self.settings.github_token.get_secret_value()

        async def give() -> str:
            return token

        remote = Remote.on_github(self.settings.github_url, repository, give if token else None)
        await remote.git(None, "clone", "--quiet", "--bare", "--", remote.url, str(scratch))
        scratch.rename(place)
        return place

    async def _list_closed(self, repository: str, old: Listed) -> Listed:
        """`old` with what has changed since; at most 10,000, with pull requests."""
        owner, _, name = repository.partition("/")
        asked = now().strftime("%Y-%m-%dT%H:%M:%SZ")
        licence = _read_licence((await self._send(api_path("repos", owner, name), {})).json())
        issues, closing = dict(old.issues), dict(old.closing)
        params = {"state": "closed", **({"since": old.asked} if old.asked else {})}
        async for item in self._list(api_path("repos", owner, name, "issues"), params):
            number, pull = int(item["number"]), item.get("pull_request")
            if pull is None:
                issues[number] = IssueRow(
                    repository=repository,
                    number=number,
                    title=str(item["title"]),
                    body=item.get("body"),
                    licence=licence,
                )
            elif pull.get("merged_at"):
                text = f"{item['title']}\n{item.get('body') or ''}"
                closing |= dict.fromkeys(find_closed(text), number)
        return Listed(asked=asked, issues=issues, closing=closing)

    async def _list(
        self, path: str, params: dict[str, str], items: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        for page in range(1, MAX_PAGES + 1):
            answer = await self._send(path, {**params, "per_page": PER_PAGE, "page": page})
            for item in answer.json()[items] if items else answer.json():
                yield item
            if 'rel="next"' not in answer.headers.get("link", ""):
                return

    async def _send(self, path: str, params: dict[str, Any]) -> Any:
        while True:
            try:
                return await self.client.request("GET", path, params=params)
            except RateLimited as limit:
                seconds = limit.retry_after or 60
                print_progress(f"GitHub's limit is reached: going on in {seconds:.0f} s.")
                await asyncio.sleep(seconds)


def _key(repository: str) -> str:
    return repository.replace("/", "__")


def _read_licence(repository: dict[str, Any]) -> str:
    """Its SPDX identifier; empty where GitHub knows none."""
    licence: dict[str, Any] = repository.get("license") or {}
    found = str(licence.get("spdx_id") or "")
    return "" if found == "NOASSERTION" else found


@asynccontextmanager
async def open_reader(
    settings: Settings, trees: Path, store: Store
) -> AsyncGenerator[GitHubReader]:
    """A reader with the token of the settings."""
    whole = await asyncio.to_thread(trees.resolve)  # git works in a folder of its own
    credential = TokenCredential(settings.github_token.get_secret_value())
    async with GitHubClient(settings.github_url.rstrip("/"), credential) as client:
        yield GitHubReader(client, settings, whole, store)


def check_repository(repository: str) -> None:
    """Raises BadData: it is not OWNER/NAME. Warns of one of SWE-bench."""
    if not re.fullmatch(r"[\w.-]{1,100}/[\w.-]{1,100}", repository, re.A):
        raise BadData(f"--github {repository}: give OWNER/NAME.")
    if is_benchmarked(repository):
        print_progress(
            f"{repository} is one of SWE-bench's repositories: whatever learns from it cannot be "
            "measured there."
        )


async def collect_repositories(
    reader: GitHubReader, repositories: Collection[str]
) -> AsyncIterator[tuple[LearningData, CollectReport]]:
    """What is new of each repository, which is added to the data before the next is asked for.

    One that cannot be read is left out if it is one of several.

    Raises:
        BadData: the only one cannot be read.
        GitHubUnavailable: GitHub does not answer; call again to go on.
    """
    for name in repositories:
        try:
            found = await reader.read(name)
        except GitHubUnavailable:
            raise
        except (GitHubError, BotError, GitFailed, BadData) as error:
            problem = (
                f"{name} cannot be read ({error}). Set CAPUCHIN_GITHUB_TOKEN to a token that may "
                "read it."
            )
            if len(repositories) == 1:
                raise BadData(problem) from None
            print_progress(problem)
            continue
        if found:
            yield found
            await reader.mark_added(name)
