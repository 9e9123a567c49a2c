"""Pull requests and check runs."""

from __future__ import annotations

from typing import Any, Literal

from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.github.facts import CheckRunFacts, PullRequestFacts
from bot.github.scope import Scope

CHECK_TEXT_CHARACTERS = 65_535
"""GitHub's limit for each text of a check run (docs.github.com/rest/checks/runs)."""


class Pulls:
    """Raises as `Wire.send` does unless said otherwise."""

    def __init__(self, scope: Scope, owner: str) -> None:
        self._scope = scope
        self._owner = owner

    async def find(self, branch: str, marker: str) -> PullRequestFacts | None:
        """Our pull request from `branch`: an open one, or a closed one that holds `marker`.

        A closed one without the marker belongs to an earlier branch of the same name.
        """
        listed = self._scope.pages("pulls", limit=1, head=f"{self._owner}:{branch}", state="all")
        async for item in listed:
            found = PullRequestFacts.model_validate(item)
            ours = found.head_branch == branch
            if ours and (found.state == "open" or marker in (found.body or "")):
                return found
        return None

    async def open_once(
        self, *, branch: str, base: str, title: str, body: str, marker: str, draft: bool = True
    ) -> PullRequestFacts:
        """The draft pull request from `branch`, made when there is none yet.

        Where drafts are not offered (private repositories of free plans), an ordinary one.
        """
        assert marker in body

        async def find() -> PullRequestFacts | None:
            return await self.find(branch, marker)

        async def create() -> PullRequestFacts:
            fields = {"title": title, "body": body, "head": branch, "base": base}
            try:
                made = await self._scope.send("POST", "pulls", json={**fields, "draft": draft})
            except Unprocessable:
                if not draft or await find() is not None:
                    raise
                made = await self._scope.send("POST", "pulls", json=fields)
            return PullRequestFacts.model_validate(made)

        return await self._scope.once(find, create)

    async def request_review(self, number: int, login: str) -> bool:
        """False when GitHub will not: its author cannot review it, or a bot was named."""
        where = ("pulls", number, "requested_reviewers")
        try:
            await self._scope.send("POST", *where, json={"reviewers": [login]})
        except (Unprocessable, NotFound, Forbidden):
            return False
        return True

    async def check_once(
        self,
        *,
        name: str,
        head_sha: str,
        external_id: str,
        conclusion: Literal["success", "failure", "neutral"],
        title: str,
        summary: str,
        text: str,
    ) -> CheckRunFacts:
        """The completed check run on a commit, made when there is none with this external id."""
        output = {
            "title": title[:255],
            "summary": summary[:CHECK_TEXT_CHARACTERS],
            "text": text[:CHECK_TEXT_CHARACTERS],
        }
        body: dict[str, Any] = {
            "name": name,
            "head_sha": head_sha,
            "external_id": external_id,
            "status": "completed",
            "conclusion": conclusion,
            "output": output,
        }

        async def find() -> CheckRunFacts | None:
            listed = self._scope.pages(
                "commits", head_sha, "check-runs", items="check_runs", check_name=name
            )
            async for item in listed:
                if item.get("external_id") == external_id:
                    return CheckRunFacts.model_validate(item)
            return None

        async def create() -> CheckRunFacts:
            made = await self._scope.send("POST", "check-runs", json=body)
            return CheckRunFacts.model_validate(made)

        return await self._scope.once(find, create)
