"""What several tests of our pull requests begin with and look at."""

from collections.abc import Awaitable, Callable

from capuchin_demo.hub.check_actions import report_check
from capuchin_demo.hub.state import Issue, Pull, Repo
from tests.e2e.harness import BotHarness
from tests.support.data.diffs import diff_of

FOLLOW_UP_DIFF = diff_of(
    "def total(a, b):\n    return a + b\n",
    "def total(a, b):\n    # Both count.\n    return a + b\n",
    "shop.py",
)
REVIEW_LINE = [("shop.py", 2, "Please say why.")]


Act = Callable[[BotHarness, Issue], Awaitable[None]]


async def ask_by_label(bot: BotHarness, issue: Issue) -> None:
    if bot.settings.label in issue.labels:
        await bot.hub.remove_label(issue, bot.settings.label, "alice")
    await bot.label(issue)


async def retry(bot: BotHarness, issue: Issue) -> None:
    await bot.comment(issue, "/capuchin retry")


async def use_first(bot: BotHarness, issue: Issue) -> None:
    await bot.comment(issue, "/capuchin use A")


ASKS: dict[str, Act] = {"label": ask_by_label, "retry": retry, "use A": use_first}
"""How people ask for what a run has found and not published."""


async def open_pull(bot: BotHarness, config: str = "") -> tuple[Repo, Pull]:
    """A pull request of ours, looked after once."""
    repo = bot.add_repo(config=config)
    await bot.open_issue(repo)
    await bot.settle()
    (pull,) = repo.pulls
    return repo, pull


async def finish_check(bot: BotHarness, pull: Pull, conclusion: str, **more: str) -> None:
    """Another App's check run ends on the head, and the bot settles."""
    await report_check(bot.hub, pull, conclusion, **more)
    await bot.settle()


def thread_replies(bot: BotHarness, pull: Pull) -> list[tuple[int | None, str]]:
    """What the bot wrote in threads, and which comment each answers."""
    return [
        (comment.in_reply_to, comment.body)
        for review in pull.reviews
        for comment in review.comments
        if review.author is bot.hub.bot
    ]
