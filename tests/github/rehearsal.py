"""The bot without webhooks on any GitHub, and a person who acts through its REST API alone."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from bot.bootstrap import assemble
from bot.data.run import RunStatus
from bot.git.mirrors import Remote
from bot.github.http import api_root
from bot.settings import Settings
from bot.storage.storage import Storage
from tests.e2e.people import SMALL_SHOP
from tests.e2e.runners import FakeRunner

SECONDS = 300
"""That GitHub and the bot may take for one step."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Account:
    """Where to rehearse, and by whose token people act."""

    github_url: str
    repository: str
    """`owner/name` of a throw-away repository on which the App is installed."""
    token: str
    """A personal access token that may write to it."""


class Rehearsal:
    """What a person does and sees on GitHub, while a worker of the bot looks there again and again.

    `path` is that of the REST API below the repository's address.
    """

    def __init__(
        self,
        account: Account,
        settings: Settings,
        api: httpx.AsyncClient,
        storage: Storage,
        root: str,
    ) -> None:
        self.runner = FakeRunner(settings, saves=True)
        self.bot = assemble(settings, self.runner)
        self.settings = settings
        self._account = account
        self._api = api
        self._root = root
        self._issues: list[int] = []
        self._storage = storage
        self._pause = min(3.0, settings.timings.missed_seconds)
        self.app = settings.github_app_id
        self.remote = Remote.on_github(account.github_url, account.repository, self._get_token)

    async def _get_token(self) -> str:
        return self._account.token

    @classmethod
    @asynccontextmanager
    async def start(cls, account: Account, settings: Settings) -> "AsyncGenerator[Rehearsal]":
        """A worker runs in the block; its code is what `SMALL_SHOP` holds."""
        root = f"{api_root(account.github_url)}/repos/{account.repository}"
        headers = {"authorization": f"Bearer {account.token}", "user-agent": "capuchin-rehearsal"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as api,
            Storage.open(settings.redis_url, settings.redis_prefix, timeout=60) as storage,
        ):
            this = cls(account, settings, api, storage, root)
            await this._commit_shop()
            worker = this.bot.build_worker(find_missed=True)
            task = asyncio.create_task(worker.run())
            try:
                yield this
            finally:
                this.runner.go_on.set()
                worker.stop()
                await task
                await this._clean_up()

    async def call(self, method: str, path: str, **body: Any) -> Any:
        """Raises httpx.HTTPStatusError, with GitHub's words in a note."""
        answer = await self._send(method, path, body)
        try:
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            error.add_note(answer.text)
            raise
        return answer.json() if answer.content else None

    async def _send(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        return await self._api.request(method, f"{self._root}{path}", json=body or None)

    async def until(self, what: Callable[[], Awaitable[Any]]) -> Any:
        """What `what()` returns, as soon as that is neither empty nor None."""
        async with asyncio.timeout(SECONDS):
            while not (found := await what()):
                await asyncio.sleep(self._pause)
        return found

    # What a person does

    async def open_issue(self, body: str = "It should add.", *labels: str) -> int:
        made = await self.call("POST", "/issues", title="total() subtracts", body=body)
        for label in labels:
            await self.label(made["number"], label)
        self._issues.append(made["number"])
        return made["number"]

    async def label(self, issue: int, suffix: str = "") -> None:
        await self.call("POST", f"/issues/{issue}/labels", labels=[self.settings.label + suffix])

    async def comment(self, issue: int, text: str) -> int:
        return (await self.call("POST", f"/issues/{issue}/comments", body=text))["id"]

    async def close(self, issue: int) -> None:
        await self.call("PATCH", f"/issues/{issue}", state="closed")

    async def commit(self, branch: str, files: Mapping[str, str | bytes], message: str) -> str:
        """Commit on top of `branch`, which is made if it is missing; the commit's id."""
        base = await self._head(branch) or await self._head(await self.default_branch())
        parent = await self.call("GET", f"/git/commits/{base}")
        tree = [
            {"path": path, "mode": "100644", "type": "blob", "sha": await self._upload(content)}
            for path, content in files.items()
        ]
        made = await self.call("POST", "/git/trees", base_tree=parent["tree"]["sha"], tree=tree)
        sha = (
            await self.call(
                "POST", "/git/commits", message=message, tree=made["sha"], parents=[base]
            )
        )["sha"]
        if await self._head(branch):
            await self.call("PATCH", f"/git/refs/heads/{branch}", sha=sha)
        else:
            await self.call("POST", "/git/refs", ref=f"refs/heads/{branch}", sha=sha)
        return sha

    # What a person sees

    async def default_branch(self) -> str:
        return (await self.call("GET", ""))["default_branch"]

    async def comments_of(self, issue: int) -> list[str]:
        """What the bot wrote there."""
        listed: list[Json] = await self.call("GET", f"/issues/{issue}/comments?per_page=100")
        return [one["body"] for one in listed if one["user"]["type"] == "Bot"]

    async def labels_of(self, issue: int) -> list[str]:
        return [one["name"] for one in (await self.call("GET", f"/issues/{issue}"))["labels"]]

    async def reactions_of(self, comment: int) -> list[str]:
        listed: list[Json] = await self.call("GET", f"/issues/comments/{comment}/reactions")
        return [one["content"] for one in listed]

    async def pull_for(self, issue: int, state: str = "open") -> Json | None:
        """The bot's pull request that fixes the issue."""
        listed: list[Json] = await self.call("GET", f"/pulls?state={state}&per_page=100")
        wanted = f"Fixes #{issue}\n"
        return next((one for one in listed if wanted in (one["body"] or "") + "\n"), None)

    async def checks_of(self, sha: str) -> dict[str, str | None]:
        """The conclusion of each check run on a commit, by its name."""
        listed = await self.call("GET", f"/commits/{sha}/check-runs")
        return {one["name"]: one["conclusion"] for one in listed["check_runs"]}

    async def wait_for_pull(self, issue: int) -> Json:
        return await self.until(lambda: self.pull_for(issue))

    async def wait_for_end(self, issue: int) -> RunStatus:
        """How the latest run of the issue ended."""

        async def ended() -> RunStatus | None:
            runs = [
                run
                async for repo in self.bot.github.list_repositories()
                if repo.full_name.lower() == self._account.repository.lower()
                and (run := await self._storage.runs.get_latest(repo, issue))
            ]
            return runs[0].status if runs and runs[0].status.final else None

        return await self.until(ended)

    async def _clean_up(self) -> None:
        """Close what was opened, and delete the branches."""
        for issue in self._issues:
            await self.close(issue)
            if pull := await self.pull_for(issue):
                await self.close(pull["number"])
        for ref in await self.call("GET", "/git/matching-refs/heads/"):
            branch = ref["ref"].removeprefix("refs/heads/")
            if any(f"issue-{n}-" in branch or branch == f"{n}-total" for n in self._issues):
                await self.call("DELETE", f"/git/{ref['ref']}")

    async def _commit_shop(self) -> None:
        """The default branch as every scenario expects it."""
        branch = await self.default_branch()
        for path, content in SMALL_SHOP.items():
            found = await self._send("GET", f"/contents/{path}")
            if found.status_code == 404 or base64.b64decode(found.json()["content"]) != content:
                await self.commit(branch, SMALL_SHOP, "Prepare the rehearsal")
                return

    async def _head(self, branch: str) -> str | None:
        answer = await self._send("GET", f"/git/ref/heads/{branch}")
        return answer.json()["object"]["sha"] if answer.status_code == 200 else None

    async def _upload(self, content: str | bytes) -> str:
        data = content if isinstance(content, bytes) else content.encode()
        made = await self.call(
            "POST", "/git/blobs", content=base64.b64encode(data).decode(), encoding="base64"
        )
        return made["sha"]
