"""The HTML pages and forms."""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import nh3
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from capuchin_demo.hub import git_compare, issue_actions, pull_actions
from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.state import Issue, Pull, Repo, Review, User


async def _read_form(request: Request) -> dict[str, str] | None:
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > 512 * 1024:
            return None
    return dict(parse_qsl(data.decode("utf-8", "replace"), max_num_fields=20))


TAGS = {
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt",
    "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd", "li", "ol", "p",
    "pre", "s", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip
"""No images, frames, forms, scripts or styles: a page loads no external content."""
TEMPLATES = Path(__file__).parent / "templates"

PATHS = re.compile(
    r"/(?P<owner>[^/]+)/(?P<repo>[^/]+?)"
    r"(/(?P<kind>issues|pull)/(?P<number>\d{1,9})(?P<diff>\.diff)?)?/?"
)


class PageRouter:
    """Serves the pages without a token, to anybody who can reach the hub's port."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._style = (TEMPLATES / "style.css").read_text("utf-8")
        environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters.update(
            markdown=_to_markup,
            moment=_format_moment,
            diff_class=_diff_class,
            state_word=_state_word,
        )
        self._templates = environment
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
            every = sorted(self._state.repos.values(), key=lambda repo: repo.full_name)
            return self._render_page("home.html", "localhub", repo=None, repos=every)
        found = PATHS.fullmatch(path)
        repo = self._state.find_repo(f"{found['owner']}/{found['repo']}") if found else None
        if found is None or repo is None:
            return self._not_found()
        if found["kind"] is None:
            if request.method == "POST":
                return self._not_found()
            newest = sorted(repo.issues.values(), key=lambda issue: -issue.number)
            return self._render_page(
                "repo.html",
                repo.full_name,
                repo=repo,
                branches=await asyncio.to_thread(repo.list_branches),
                pulls=[one for one in newest if isinstance(one, Pull)],
                issues=[one for one in newest if not isinstance(one, Pull)],
            )
        issue = repo.issues.get(int(found["number"]))
        if issue is None or (found["kind"] == "pull") != isinstance(issue, Pull):
            return self._not_found()
        if found["diff"]:
            return await self._diff_page(issue)
        if request.method == "POST":
            return await self._receive_form(request, issue)
        return await self._thread_page(issue, watched="watch" in request.query_params)

    async def _receive_form(self, request: Request, issue: Issue) -> Response:
        """Do what a form says, then lead back to its page, which reloads itself for a while."""
        visitor = self._state.visitor
        if visitor is None:
            return PlainTextResponse("Not Found", 404)
        values = await _read_form(request)
        if values is None:
            return PlainTextResponse("The form is too large.", 413)
        # A name that an attacker's DNS server lets lead here has another host.
        is_own = request.headers.get("host", "") == urlsplit(self._state.url).netloc
        if not is_own or not hmac.compare_digest(
            values.get("token", "").encode(), visitor.token.encode()
        ):
            return PlainTextResponse("This form is not from this page: reload it.", 403)
        try:
            await self._act(issue, self._state.add_user(visitor.login), values)
        except Refusal as refusal:
            return PlainTextResponse(refusal.message, refusal.status)
        await self._state.wait_until_delivered()
        return RedirectResponse(f"/{issue.html_path}?watch=1", 303)

    async def _act(self, issue: Issue, by: User, values: Mapping[str, str]) -> None:
        state, text = self._state, values.get("text", "").replace("\r\n", "\n")
        match values.get("action"):
            case "comment":
                issue_actions.add_comment(state, issue, text, by)
            case "label":
                issue_actions.add_labels(state, issue, [text.strip()], by)
            case "unlabel":
                issue_actions.remove_label(state, issue, text, by)
            case "close":
                issue_actions.close_issue(state, issue, by)
            case "reopen":
                issue_actions.reopen_issue(state, issue, by)
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
                if state not in ("COMMENTED", "CHANGES_REQUESTED", "APPROVED") or (
                    not text.strip() and state != "APPROVED"
                ):
                    raise Refusal(422, "A review needs a text.")
                review = Review(self._state.next_id(), by, text, state, pull.head_sha)
                pull_actions.add_review(self._state, pull, review)
            case "ready":
                pull_actions.mark_ready(self._state, pull, by)
            case "merge":
                await pull_actions.merge(self._state, pull, by)
            case _:
                raise Refusal(422, "There is no such action.")

    async def _thread_page(self, issue: Issue, *, watched: bool) -> Response:
        pull = issue if isinstance(issue, Pull) else None
        facts: dict[str, Any] = {"commits": [], "files": []}
        if pull is not None:
            facts = await asyncio.to_thread(_read_changes, pull)
        checks = issue.repo.check_runs if pull else []
        return self._render_page(
            "thread.html",
            f"{issue.title} #{issue.number}",
            repo=issue.repo,
            issue=issue,
            pull=pull,
            checks=[run for run in checks if pull and run.head_sha == pull.head_sha],
            watched=watched and self._state.visitor is not None,
            **facts,
        )

    async def _diff_page(self, issue: Issue) -> Response:
        if not isinstance(issue, Pull):
            return self._not_found()
        text = await asyncio.to_thread(git_compare.pull_diff, issue)
        return PlainTextResponse(text, headers=self._headers)

    def _not_found(self) -> Response:
        return PlainTextResponse("Not Found", 404, headers=self._headers)

    def _render_page(self, template: str, heading: str, **values: Any) -> Response:
        shared = {"style": self._style, "visitor": self._state.visitor}
        values = {"watched": False, **shared, **values}
        text = self._templates.get_template(template).render(heading=heading, **values)
        return HTMLResponse(text, headers=self._headers)


def _to_markup(text: str, repo: Repo | None = None) -> Markup:
    return Markup(render_markdown(text, repo))  # noqa: S704  what render returns is sanitised


def _format_moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _diff_class(line: str) -> str:
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")


def _state_word(issue: Issue) -> str:
    if isinstance(issue, Pull) and issue.merged_at is not None:
        return "merged"
    if isinstance(issue, Pull) and issue.draft and issue.state == "open":
        return "draft"
    return issue.state


def _read_changes(pull: Pull) -> dict[str, Any]:
    base = git_compare.fork_point(pull)
    return {
        "commits": pull.repo.git.log(pull.head_sha, without=base)[::-1],
        "files": git_compare.changed_files(pull),
    }


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
        tags=TAGS,
        attributes={"a": {"href", "title"}, "details": {"open"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
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
        for place, part in enumerate(re.split(r"(?<![\w&/])#(\d{1,9})\b", token.content)):
            issue = repo.issues.get(int(part)) if place % 2 else None
            shown = Token("text", "", 0, content=f"#{part}" if place % 2 else part)
            if issue is None:
                linked.append(shown)
            else:
                opened = Token("link_open", "a", 1, attrs={"href": f"/{issue.html_path}"})
                linked += [opened, shown, Token("link_close", "a", -1)]
    return linked
