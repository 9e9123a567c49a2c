"""The HTML of the runs. All text is escaped by the templates; nothing but our style is loaded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from bot.comments import status
from bot.settings import Settings
from bot.storage.progress import Progress
from bot.types import Run, RunStatus
from pipeline.types import NoFixReason

TEMPLATES: Final = Path(__file__).parent / "templates"
REFRESH_SECONDS: Final = 10


class Pages:
    """One for each process."""

    def __init__(self, settings: Settings) -> None:
        self._github = settings.github_url.rstrip("/")
        self._style = (TEMPLATES / "style.css").read_text("utf-8")
        self._templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(stamp=_format_time, inline=_render_inline)
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self.headers = {
            "content-security-policy": f"default-src 'none'; style-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "x-robots-tag": "noindex",
            # The address opens the page: linked sites must not see it.
            "referrer-policy": "no-referrer",
        }

    def render_run(self, run: Run, progress: Progress) -> str:
        """The page of one run."""
        return self._render(
            "run.html",
            f"{run.repo.full_name}#{run.issue}",
            run=run,
            issue_url=self._issue_url(run),
            pull_url=_safe_url(run.pull_request_url),
            progress=progress,
            dollars=max(run.dollars, progress.dollars),
            reason=_reason(run),
            refresh=0 if run.status.final else REFRESH_SECONDS,
        )

    def render_runs(self, runs: Sequence[Run]) -> str:
        """The page of all."""
        return self._render("runs.html", "Runs", runs=runs, refresh=0)

    def _issue_url(self, run: Run) -> str:
        owner, name = quote(run.repo.owner, safe=""), quote(run.repo.name, safe="")
        return _safe_url(f"{self._github}/{owner}/{name}/issues/{run.issue}")

    def _render(self, template: str, heading: str, **values: Any) -> str:
        found = self._templates.get_template(template)
        return found.render(heading=heading, style=self._style, **values)


def _render_inline(text: str) -> Markup:
    """Our own sentences are Markdown, with what they quote escaped for it."""
    return Markup(_MARKDOWN.renderInline(text))  # noqa: S704 - reads neither HTML nor links


_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).disable(
    ["link", "image", "autolink", "html_inline"]
)


def _reason(run: Run) -> str:
    """Why there is no pull request, in Markdown; empty where there is one, or may yet be."""
    if run.failure is not None:
        return status.failure_reason(run.failure, run.detail)
    if run.status is RunStatus.NO_FIX:
        reasons: dict[str, NoFixReason] = {one: one for one in status.NO_FIX_REASONS}
        reason = reasons.get(run.detail)
        return status.no_fix_reason(reason) if reason else ""
    if run.waiting_for is not None and not run.status.final:
        return status.waiting_sentence(run.waiting_for)
    return ""


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _safe_url(url: str) -> str:
    """Only an address of the web is a link."""
    return url if url.startswith(("https://", "http://")) else ""
