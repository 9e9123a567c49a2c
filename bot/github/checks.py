"""Check runs: an App's verdict on a commit, with annotations at lines of files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from bot.data.github_facts import (
    AnnotationFacts,
    BranchFacts,
    CheckRunFacts,
    CheckSuiteFacts,
    RuleFacts,
    StatusFacts,
)
from bot.errors import Forbidden, NotFound, Unprocessable
from bot.github.repository_api import RepositoryApi
from pipeline.data.types import CommitSha

TEXT_CHARACTERS: Final = 65_535
"""GitHub's limit for each text of a check run (docs.github.com/rest/checks/runs)."""
MESSAGE_CHARACTERS: Final = 4_000
"""An annotation may hold 64 KB, which is too much to read at a line."""
ANNOTATIONS_PER_REQUEST: Final = 50
"""GitHub's limit for each request; further requests add more (docs.github.com/rest/checks/runs)."""

Conclusion = Literal["success", "failure", "neutral", "action_required", "cancelled"]


@dataclass(frozen=True)
class Annotation:
    """A message at a line (from 1) of a file, shown in the diff if the line is part of it."""

    path: str
    line: int
    message: str
    column: int | None = None
    """From 1."""
    level: Literal["notice", "warning", "failure"] = "failure"

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "path": self.path,
            "start_line": self.line,
            "end_line": self.line,
            "annotation_level": self.level,
            "message": self.message[:MESSAGE_CHARACTERS],
        }
        if self.column is not None:
            fields |= {"start_column": self.column, "end_column": self.column}
        return fields


@dataclass(frozen=True)
class Check:
    """A check run, identified by `external_id` on the same commit; `summary`, `text`: Markdown."""

    name: str
    head_sha: CommitSha
    external_id: str
    title: str
    summary: str
    conclusion: Conclusion = "neutral"
    text: str = ""
    annotations: Sequence[Annotation] = ()


class Checks:
    """The check runs of a repository.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(self, api: RepositoryApi) -> None:
        self._api = api

    async def switch_off_empty_suites(self, app: int) -> None:
        """Have GitHub make no check suite for the App at each push: an unused one stays queued, and
        keeps merge bots waiting.

        https://docs.github.com/rest/checks/suites#update-repository-preferences-for-check-suites
        """
        own = {"app_id": app, "setting": False}
        json = {"auto_trigger_checks": [own]}
        await self._api.send("PATCH", "check-suites", "preferences", json=json)

    async def begin(self, check: Check) -> CheckRunFacts:
        """Find the check run with this external id, or create it in progress."""
        return await self._find_or_create(check, {"status": "in_progress", "output": _head(check)})

    async def complete(self, check: Check) -> CheckRunFacts:
        """Find the check run with this external id and complete it, or create it completed.

        If an earlier call was interrupted, missing annotations are added.
        """
        conclusion, output = check.conclusion, _output(check, 0)
        end = {"status": "completed", "conclusion": conclusion, "output": output}
        made = await self._find_or_create(check, end)
        if made.status != "completed":
            made = await self._send("PATCH", "check-runs", made.id, json=end)
        while made.annotations < len(check.annotations):
            more = {"output": _output(check, made.annotations)}
            after = await self._send("PATCH", "check-runs", made.id, json=more)
            if after.annotations <= made.annotations:  # GitHub does not accept them
                break
            made = after
        return made

    async def find(self, name: str, head_sha: CommitSha, external_id: str) -> CheckRunFacts | None:
        """The latest check run of that name on a commit, if it has this external id."""
        listed = self._api.paginate(
            "commits", head_sha, "check-runs", items="check_runs", check_name=name
        )
        async for item in listed:
            found = CheckRunFacts.model_validate(item)
            if found.external_id == external_id:
                return found
        return None

    async def list_by_others(self, sha: CommitSha, own_slug: str) -> list[CheckRunFacts]:
        """The latest check runs of other Apps on a commit, such as the repository's CI."""
        listed = self._api.paginate("commits", sha, "check-runs", items="check_runs", limit=5)
        found = [CheckRunFacts.model_validate(item) async for item in listed]
        return [run for run in found if run.app != own_slug]

    async def list_suites_by_others(self, sha: CommitSha, own_slug: str) -> list[CheckSuiteFacts]:
        """The check suites of other Apps on a commit, also those that are queued and empty."""
        listed = self._api.paginate("commits", sha, "check-suites", items="check_suites", limit=5)
        found = [CheckSuiteFacts.model_validate(item) async for item in listed]
        return [suite for suite in found if suite.app != own_slug]

    async def list_statuses(self, sha: CommitSha) -> list[StatusFacts]:
        """The latest commit status of each context, from CI systems without check runs."""
        listed = self._api.paginate("commits", sha, "status", items="statuses", limit=5)
        return [StatusFacts.model_validate(item) async for item in listed]

    async def list_required(self, branch: str) -> tuple[str, ...]:
        """The names of checks and statuses that the branch requires, reported or not; empty where
        it requires none, or where we may not know.

        docs.github.com/rest/branches/branches#get-a-branch, docs.github.com/rest/repos/rules
        """
        parts = branch.split("/")
        try:
            facts = BranchFacts.model_validate(await self._api.get("branches", *parts))
            listed = self._api.paginate("rules", "branches", *parts)
            rules = [RuleFacts.model_validate(item) async for item in listed]
        except (Forbidden, NotFound, Unprocessable):
            return ()
        named = (one.context for rule in rules for one in rule.checks)
        return tuple(dict.fromkeys((*facts.required, *named)))

    async def list_annotations(self, run: int) -> list[AnnotationFacts]:
        """The first hundred annotations of a check run."""
        listed = self._api.paginate("check-runs", run, "annotations", limit=1)
        return [AnnotationFacts.model_validate(item) async for item in listed]

    async def _find_or_create(self, check: Check, state: dict[str, Any]) -> CheckRunFacts:
        """Find the check run, or create it in `state`."""

        async def create() -> CheckRunFacts:
            body = {
                "name": check.name,
                "head_sha": check.head_sha,
                "external_id": check.external_id,
                **state,
            }
            try:
                return await self._send("POST", "check-runs", json=body)
            except Unprocessable:  # where suites are not made by themselves, we make ours
                suite = {"head_sha": check.head_sha}
                await self._api.send("POST", "check-suites", json=suite)
                return await self._send("POST", "check-runs", json=body)

        find = partial(self.find, check.name, check.head_sha, check.external_id)
        return await self._api.find_or_create(find, create)

    async def _send(self, method: str, *segments: str | int, json: dict[str, Any]) -> CheckRunFacts:
        return CheckRunFacts.model_validate(await self._api.send(method, *segments, json=json))


def _head(check: Check) -> dict[str, Any]:
    return {"title": check.title[:255], "summary": check.summary[:TEXT_CHARACTERS]}


def _output(check: Check, sent: int) -> dict[str, Any]:
    output = _head(check)
    if check.text:
        output["text"] = check.text[:TEXT_CHARACTERS]
    if batch := check.annotations[sent : sent + ANNOTATIONS_PER_REQUEST]:
        output["annotations"] = [annotation.to_json() for annotation in batch]
    return output
