"""The HTML pages and forms."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

import nh3
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from capuchin_demo.hub import git_compare, pull_actions
from capuchin_demo.hub.faults import Refusal
from capuchin_demo.hub.state import CheckRun, Issue, Pull, Repo, User, stamp

if TYPE_CHECKING:
    from capuchin_demo.hub.hub import LocalHub


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
                pull_actions.mark_ready(self._hub, pull, by)
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


TAGS = frozenset(
    [
        "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt",
        "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd", "li", "ol", "p",
        "pre", "s", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th",
        "thead", "tr", "ul",
    ]
)  # fmt: skip
"""No images, frames, forms, scripts or styles: a page loads no external content."""
ATTRIBUTES = {"a": {"href", "title"}, "details": {"open"}, "ol": {"start"}}
LINKS = frozenset({"http", "https", "mailto"})


TEMPLATES = Path(__file__).parent / "templates"

PATHS = re.compile(
    r"/(?P<owner>[^/]+)/(?P<repo>[^/]+?)"
    r"(/(?P<kind>issues|pull)/(?P<number>\d{1,9})(?P<diff>\.diff)?)?/?"
)

EMOJI = {
    "+1": "👍",
    "-1": "👎",
    "laugh": "😄",
    "confused": "😕",
    "heart": "❤️",
    "hooray": "🎉",
    "rocket": "🚀",
    "eyes": "👀",
}


class PageRouter:
    """Serves the pages without a token, to anybody who can reach the hub's port."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub
        self._forms = Forms(hub)
        self._style = (TEMPLATES / "style.css").read_text("utf-8")
        self._templates = _create_environment()
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self._headers = {
            "content-security-policy": f"default-src 'none'; style-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
        }

    async def handle(self, request: Request) -> Response:
        """Serve one page, or receive a form of it."""
        path = request.url.path
        if path == "/":
            every = sorted(self._hub.repos.values(), key=lambda repo: repo.full_name)
            return self._render_page("home.html", "localhub", repo=None, repos=every)
        found = PATHS.fullmatch(path)
        repo = self._hub.find_repo(f"{found['owner']}/{found['repo']}") if found else None
        if found is None or repo is None:
            return self._not_found()
        if found["kind"] is None:
            return self._not_found() if request.method == "POST" else await self._repo_page(repo)
        issue = repo.issues.get(int(found["number"]))
        if issue is None or (found["kind"] == "pull") != isinstance(issue, Pull):
            return self._not_found()
        if found["diff"]:
            return await self._diff_page(issue)
        if request.method == "POST":
            return await self._forms.handle(request, issue)
        return await self._thread_page(issue, watched="watch" in request.query_params)

    async def _repo_page(self, repo: Repo) -> Response:
        newest = sorted(repo.issues.values(), key=lambda issue: -issue.number)
        return self._render_page(
            "repo.html",
            repo.full_name,
            repo=repo,
            branches=await asyncio.to_thread(repo.list_branches),
            pulls=[one for one in newest if isinstance(one, Pull)],
            issues=[one for one in newest if not isinstance(one, Pull)],
        )

    async def _thread_page(self, issue: Issue, *, watched: bool) -> Response:
        pull = issue if isinstance(issue, Pull) else None
        facts: dict[str, Any] = {"commits": [], "files": []}
        if pull is not None:
            facts = await asyncio.to_thread(_read_changes, pull)
        checks = _head_checks(pull) if pull else []
        title = f"{issue.title} #{issue.number}"
        return self._render_page(
            "thread.html",
            title,
            repo=issue.repo,
            issue=issue,
            pull=pull,
            checks=checks,
            watched=watched and self._hub.visitor is not None,
            **facts,
        )

    async def _diff_page(self, issue: Issue) -> Response:
        if not isinstance(issue, Pull):
            return self._not_found()
        base = await asyncio.to_thread(_merge_base, issue)
        text = await asyncio.to_thread(git_compare.diff_text, issue.repo.git, base, issue.head_sha)
        return PlainTextResponse(text, headers=self._headers)

    def _not_found(self) -> Response:
        return PlainTextResponse("Not Found", 404, headers=self._headers)

    def _render_page(self, template: str, heading: str, **values: Any) -> Response:
        shared = {"emoji": EMOJI, "style": self._style, "visitor": self._hub.visitor}
        values = {"watched": False, **shared, **values}
        text = self._templates.get_template(template).render(heading=heading, **values)
        return HTMLResponse(text, headers=self._headers)


def _create_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        markdown=_to_markup,
        stamp=stamp,
        diff_class=_diff_class,
        state_word=_state_word,
    )
    return environment


def _to_markup(text: str, repo: Repo | None = None) -> Markup:
    return Markup(render_markdown(text, repo))  # noqa: S704  what render returns is sanitised


def _diff_class(line: str) -> str:
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")


def _state_word(issue: Issue) -> str:
    if isinstance(issue, Pull) and issue.merged_at is not None:
        return "merged"
    return (
        "draft"
        if isinstance(issue, Pull) and issue.draft and issue.state == "open"
        else issue.state
    )


def _merge_base(pull: Pull) -> str:
    compared = git_compare.compare(pull.repo.git, pull.base_sha, pull.head_sha)
    return compared.merge_base or pull.base_sha


def _read_changes(pull: Pull) -> dict[str, Any]:
    git, base = pull.repo.git, _merge_base(pull)
    return {
        "commits": git.log(pull.head_sha, without=base)[::-1],
        "files": git_compare.diff_files(git, base, pull.head_sha),
    }


def _head_checks(pull: Pull) -> list[CheckRun]:
    return [run for run in pull.repo.check_runs if run.head_sha == pull.head_sha]


def render_markdown(text: str, repo: Repo | None = None) -> str:
    """Render safe HTML: comments vanish, `<details>` works, other tags are removed.

    Each `#12` that is an issue or pull request of `repo` is a link, but not in code or a link.
    """
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(text)
    for token in tokens:
        if repo is not None and token.children:
            token.children = _link_references(token.children, repo)
    html = parser.renderer.render(tokens, parser.options, {})
    return nh3.clean(
        html,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(LINKS),
        link_rel="noopener noreferrer nofollow",
    )


def _link_references(tokens: list[Token], repo: Repo) -> list[Token]:
    linked: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type != "text" or depth:
            linked.append(token)
            continue
        for place, part in enumerate(_REFERENCE.split(token.content)):
            issue = repo.issues.get(int(part)) if place % 2 else None
            shown = Token("text", "", 0, content=f"#{part}" if place % 2 else part)
            if issue is None:
                linked.append(shown)
            else:
                opened = Token("link_open", "a", 1, attrs={"href": f"/{issue.html_path}"})
                linked += [opened, shown, Token("link_close", "a", -1)]
    return linked


_REFERENCE = re.compile(r"(?<![\w&/])#(\d{1,9})\b")
