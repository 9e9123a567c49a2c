"""What a visitor does on the pages: comments, labels and reviews, which send signed webhooks."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from bot.localhub.actions import pulls
from bot.localhub.errors import Refusal
from bot.localhub.state import Issue, Pull, User

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

MAX_BYTES: Final = 512 * 1024
REVIEWS: Final = ("COMMENTED", "CHANGES_REQUESTED", "APPROVED")


@dataclass(frozen=True)
class Visitor:
    """The person as whom everybody acts who reaches the pages of a hub."""

    login: str
    example: str = ""
    """A review for a start."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Is in every form, so that no other website can send one."""


class Forms:
    """Receives the forms of issues and pull requests."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    async def handle(self, request: Request, issue: Issue) -> Response:
        """Do what a form says, then lead back to its page, which reloads itself for a while."""
        visitor = self._hub.visitor
        if visitor is None:
            return PlainTextResponse("Not Found", 404)
        values = await _read_form(request)
        if values is None:
            return PlainTextResponse("The form is too large.", 413)
        # A name that an attacker's DNS server lets lead here has another host.
        is_own = request.headers.get("host", "") == urlsplit(self._hub.url).netloc
        if not is_own or not hmac.compare_digest(
            values.get("token", "").encode(), visitor.token.encode()
        ):
            return PlainTextResponse("This form is not from this page: reload it.", 403)
        try:
            await self._act(issue, self._hub.add_user(visitor.login), values)
        except Refusal as refusal:
            return PlainTextResponse(refusal.message, refusal.status)
        await self._hub.wait_until_delivered()
        return RedirectResponse(f"/{issue.html_path}?watch=1", 303)

    async def _act(self, issue: Issue, by: User, values: Mapping[str, str]) -> None:
        hub, text = self._hub, values.get("text", "").replace("\r\n", "\n")
        match values.get("action"):
            case "comment":
                await hub.comment(issue, text, by.login)
            case "label":
                await hub.add_label(issue, text.strip(), by.login)
            case "unlabel":
                await hub.remove_label(issue, text, by.login)
            case "close":
                await hub.close_issue(issue, by.login)
            case "reopen":
                await hub.reopen_issue(issue, by.login)
            case action if isinstance(issue, Pull):
                await self._act_on_pull(issue, by, str(action), values)
            case _:
                raise Refusal(422, "There is no such action.")

    async def _act_on_pull(
        self, pull: Pull, by: User, action: str, values: Mapping[str, str]
    ) -> None:
        text = values.get("text", "").replace("\r\n", "\n")
        match action:
            case "review":
                state = values.get("state", "")
                if state not in REVIEWS or (not text.strip() and state != "APPROVED"):
                    raise Refusal(422, "A review needs a text.")
                await self._hub.review(pull, by.login, text, state)
            case "ready":
                pulls.mark_ready(self._hub, pull, by)
            case "merge":
                await self._hub.merge(pull, by.login)
            case _:
                raise Refusal(422, "There is no such action.")


async def _read_form(request: Request) -> dict[str, str] | None:
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BYTES:
            return None
    return dict(parse_qsl(data.decode("utf-8", "replace"), max_num_fields=20))
