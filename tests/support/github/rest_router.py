"""The REST API with limits, faults, redirects, ETags and versions, and a record of all calls."""

import hashlib
import re
import secrets
from email.utils import formatdate
from typing import Any, cast
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from capuchin_demo.hub import rest_router
from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import Operation, RestCall, RestResponse, match
from capuchin_demo.hub.rest_router import PREFIX, read_path
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import Token
from tests.support.github import rest_actions, rest_repositories, rest_search
from tests.support.github.access import check_installation
from tests.support.github.hub_state import GitHubState
from tests.support.github.rules import ARCHIVED

OPERATIONS: tuple[Operation, ...] = (
    *rest_repositories.OPERATIONS,
    *rest_actions.OPERATIONS,
    *rest_search.OPERATIONS,
    *rest_router.OPERATIONS,
)
"""The first that matches is run, so that those here go before the demo's."""


class RestRouter(rest_router.RestRouter):
    def __init__(self, hub: GitHubState) -> None:
        super().__init__(hub, OPERATIONS)
        self._hub = hub

    async def handle(self, request: Request) -> Response:
        path = _name_repository(self._hub, read_path(request))
        token: Token | None = None
        try:
            token = self.find_token(request)
            answer = await self.dispatch(request, path, token)
        except Refusal as refusal:
            answer = RestResponse(refusal.status, refusal.body(), refusal.headers)
        except Exception:
            self._hub.unexpected.append(f"{request.method} {path} broke the hub")
            raise
        answer = _apply_etag(request, _cut_removed(request, answer), self._hub, token)
        headers, content = self._list_headers(answer), answer.content()
        self._hub.record(
            "rest", request, token, answer.status,
            path=path, body=await request.body(), response_headers=headers, response=content,
        )  # fmt: skip
        return Response(content, answer.status, headers)

    async def dispatch(self, request: Request, path: str, token: Token | None) -> RestResponse:
        if match(OPERATIONS, request.method, path) is None:
            self._hub.unexpected.append(f"{request.method} {path}")
        elif len(await request.body()) > 40 * 1024 * 1024:  # GitHub accepts blobs up to 40 MB
            raise Refusal(413, "Payload too large")
        return await super().dispatch(request, path, token)

    async def run(self, entry: Operation, call: RestCall) -> RestResponse:
        async with self._hub.faults.apply(call.method, call.path):
            if entry.needs not in ("app", "open") and call.token is not None:
                self._hub.limit.spend()
                check_installation(self._hub, call.token, writes=call.method != "GET")
                if moved := self._hub.find_moved(_read_name(call)):
                    return _redirect(self._hub, moved, call)
                if renamed := self._find_renamed_branch(call):
                    return renamed
            return await super().run(entry, call)

    def _find_renamed_branch(self, call: RestCall) -> RestResponse | None:
        """https://docs.github.com/rest/branches/branches#get-a-branch: 301"""
        asked = re.fullmatch(r"/repos/([^/]+/[^/]+)/branches/(.+)", call.path)
        new = self._hub.renamed_branches.get(asked.groups()) if asked else None
        if asked is None or new is None:
            return None
        place = f"{self._hub.url}{PREFIX}{call.path[: asked.start(2)]}{new}"
        return RestResponse(
            301, {"message": "Moved Permanently", "url": place}, {"location": place}
        )

    def authorize(self, entry: Operation, call: RestCall) -> None:
        """Without a token: 401 in private mode, else public data may be read."""
        if call.token is not None:
            super().authorize(entry, call)
            if call.authorized_repo and call.authorized_repo.archived and call.method != "GET":
                raise Refusal(403, ARCHIVED)
            return
        if self._hub.private_mode or call.method != "GET":
            raise Refusal(401, "Requires authentication")
        repo = self._hub.find_repo(_read_name(call))
        if repo is None or repo.private:
            raise not_found()
        self._hub.limit.spend()
        call.authorized_repo = repo

    def _list_headers(self, answer: RestResponse) -> dict[str, str]:
        made = answer.status == 201 and isinstance(answer.body, dict)
        return {
            "date": formatdate(usegmt=True),
            "x-github-request-id": secrets.token_hex(12).upper(),
            "x-github-media-type": "github.v3; format=json",
            **self._hub.limit.headers(),
            **({"location": answer.body["url"]} if made and "url" in answer.body else {}),
            **answer.full_headers(),
        }


def _read_name(call: RestCall) -> str:
    return "/".join(call.parts.get(part, "") for part in ("owner", "repo"))


VERSIONS = ("2022-11-28", "2026-03-10")
"""https://docs.github.com/rest/about-the-rest-api/api-versions"""


def _cut_removed(request: Request, answer: RestResponse) -> RestResponse:
    """The answer without what the API version that is asked for does not have any more.

    https://docs.github.com/rest/about-the-rest-api/breaking-changes
    """
    version = request.headers.get("x-github-api-version", VERSIONS[0])
    if version not in VERSIONS:
        refusal = Refusal(400, f"The API version {version} is not supported.")
        return RestResponse(400, refusal.body(), {})
    headers = {**answer.headers, "x-github-api-version-selected": version}
    body = answer.body if version == VERSIONS[0] else _without(answer.body, "merge_commit_sha")
    return RestResponse(answer.status, body, headers)


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _without(one, name) for key, one in fields.items() if key != name}
    if isinstance(value, list):
        return [_without(one, name) for one in cast("list[Any]", value)]
    return value


def _redirect(state: GitHubState, repo: Repo, call: RestCall) -> RestResponse:
    """docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api"""
    rest = "/".join(call.path.split("/")[4:])
    place = f"{state.url}{PREFIX}/repositories/{repo.id}{'/' * bool(rest)}{rest}"
    status = 301 if call.method == "GET" else 307
    query = f"?{urlencode(call.query)}" if call.query else ""
    body = {"message": "Moved Permanently", "url": place, "documentation_url": state.url}
    return RestResponse(status, body, {"location": place + query})


def _name_repository(state: GitHubState, path: str) -> str:
    """`/repositories/ID`, where redirects lead, by the repository's present name."""
    found = re.fullmatch(r"/repositories/(\d+)(/.*)?", path)
    repo = next((r for r in state.repos.values() if found and r.id == int(found[1])), None)
    return f"/repos/{repo.full_name}{found[2] or ''}" if found and repo else path


def _apply_etag(
    request: Request, answer: RestResponse, state: GitHubState, token: Token | None
) -> RestResponse:
    """Respond 304 if the caller's ETag is current, which does not count against the rate limit.

    docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api. GitHub's ETag
    depends on the credential (`Vary: Authorization`), so that a renewed token needs a new one.
    """
    if request.method != "GET" or answer.status != 200:
        return answer
    asked_by = request.headers.get("authorization", "").encode()
    etag = f'W/"{hashlib.sha256(asked_by + answer.content()).hexdigest()}"'
    if request.headers.get("if-none-match") == etag:
        if token is not None or not asked_by:  # what the App's JWT asks was not counted
            state.limit.refund()
        return RestResponse(304, None, {"etag": etag})
    vary = {"etag": etag, "vary": "Accept, Authorization"}
    return RestResponse(200, answer.body, {**answer.headers, **vary})
