"""What people do on GitHub: they open repositories and issues, set labels and comment."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from bot.settings import Settings
from capuchin_demo.hub.state import Comment, Issue, Repo
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.support.data.publishing import SHOP
from tests.support.github.hub import LocalHub

MAINTAINER, REPORTER = "alice", "bob"
SMALL_SHOP = {"shop.py": SHOP, "tests/test_x.py": b"x = 1\n"}


class People:
    """The people on a hub. What they do leads to webhooks where somebody listens."""

    def __init__(self, hub: LocalHub, settings: Settings, llm: RecordedServer | None) -> None:
        """With recorded answers (`llm`), repositories and issues are those that they are about."""
        self.hub = hub
        self.settings = settings
        self._llm = llm

    def add_repo(
        self,
        name: str = "acme/shop",
        files: Mapping[str, str | bytes] | None = None,
        *,
        config: str = "",
        private: bool = False,
        **more: str | bytes,
    ) -> Repo:
        """A repository with the App, that alice may write to and tina may triage."""
        usual = SMALL_SHOP if self._llm is None else shop.FILES
        every: dict[str, str | bytes] = {**(usual if files is None else files), **more}
        if config:
            every[".github/capuchin.yml"] = config
        repo = self.hub.add_repo(name, every, private=private)
        for login, role in ((MAINTAINER, "write"), ("tina", "triage")):
            self.hub.add_user(login)
            repo.grant(login, role)
        return repo

    async def report_issue(
        self, repo: Repo, title: str = shop.TITLE, body: str | None = None
    ) -> Issue:
        """A stranger opens an issue; it has no label."""
        usual = "It should add." if self._llm is None else shop.BODY
        body = usual if body is None else body
        return await self.hub.open_issue(repo, title, body, author=REPORTER)

    async def open_issue(
        self, repo: Repo, title: str = shop.TITLE, body: str | None = None, *, label: bool = True
    ) -> Issue:
        """A stranger opens an issue; the maintainer labels it."""
        issue = await self.report_issue(repo, title, body)
        if label:
            await self.label(issue)
        return issue

    async def add_repo_with_issue(
        self, *, config: str = "", label: bool = False
    ) -> tuple[Repo, Issue]:
        """The usual repository, in which a stranger opens an issue; see `open_issue`."""
        repo = self.add_repo(config=config)
        return repo, await self.open_issue(repo, label=label)

    async def label(self, issue: Issue, by: str = MAINTAINER, suffix: str = "") -> None:
        await self.hub.add_label(issue, self.settings.label + suffix, by)

    async def comment(self, issue: Issue, text: str, by: str = MAINTAINER) -> Comment:
        return await self.hub.comment(issue, text, by)

    @asynccontextmanager
    async def without_webhooks(self) -> AsyncGenerator[None]:
        """No webhook of what happens in the block arrives."""
        url, self.hub.webhook_url = self.hub.webhook_url, None
        sent = len(self.hub.deliveries)
        yield
        self.hub.webhook_url = url
        for lost in self.hub.deliveries[sent:]:
            lost.status = 202  # as far as GitHub knows
