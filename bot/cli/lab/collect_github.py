"""The closed issues of a repository on GitHub, with the pull requests that closed them."""

from __future__ import annotations

import re

from bot.errors import GitHubError
from bot.github.credentials import TokenCredential
from bot.github.http import MAX_PAGES, GitHubClient, api_path
from bot.settings import Settings
from pipeline.lab.dataset import BadData
from pipeline.lab.learning.collect import BENCHMARKED, IssueRow, find_closed
from sandbox.frozen import replace


async def list_closed_issues(
    repository: str, settings: Settings, *, benchmarks: bool
) -> list[IssueRow]:
    """The newest closed issues, at most 10,000 with the pull requests among them.

    A repository of SWE-bench is taken only with `benchmarks`.

    Raises:
        BadData: `repository` is not OWNER/NAME, is of SWE-bench, or GitHub does not answer.
    """
    place = re.fullmatch(r"([\w.-]{1,100})/([\w.-]{1,100})", repository, re.A)
    if place is None:
        raise BadData(f"--github {repository}: give OWNER/NAME.")
    if repository.casefold() in BENCHMARKED and not benchmarks:
        raise BadData(
            f"{repository} is one of SWE-bench's repositories: whatever learns from it cannot be "
            "measured there. Add --benchmarks to take it."
        )
    credential = TokenCredential(settings.github_token.get_secret_value())
    path = api_path("repos", place[1], place[2], "issues")
    issues: list[IssueRow] = []
    closing: dict[int, int] = {}
    try:
        async with GitHubClient(settings.github_url.rstrip("/")) as client:
            asked = {"state": "closed"}
            async for item in client.paginate(path, credential, params=asked, limit=MAX_PAGES):
                pull = item.get("pull_request")
                if pull is None:
                    issues.append(
                        IssueRow(
                            repository=repository,
                            number=int(item["number"]),
                            title=str(item["title"]),
                            body=item.get("body"),
                        )
                    )
                elif pull.get("merged_at"):
                    text = f"{item['title']}\n{item.get('body') or ''}"
                    closing |= dict.fromkeys(find_closed(text), int(item["number"]))
    except GitHubError as error:
        raise BadData(
            f"GitHub cannot be asked about {repository} ({error}). Set CAPUCHIN_GITHUB_TOKEN to a "
            "token that may read it."
        ) from None
    return [replace(row, pull=closing.get(row.number)) for row in issues]
