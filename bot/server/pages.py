"""The HTML of the runs. All text is escaped by the templates; nothing is loaded but our style and
the script of a page that is live."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from bot.comments import failures
from bot.comments import failures as no_fix
from bot.comments.evidence import describe_minutes
from bot.comments.status import describe_wait
from bot.data.progress import Progress
from bot.data.run import Run, RunStatus, now
from bot.queue.position import load_queue
from bot.safe_text import make_visible
from bot.server.run_list import RunFilter, draw_days, list_runs, minutes_of, state_of
from bot.server.run_report import RunReport, load_ledger, load_report, load_timeline
from bot.settings import Settings
from bot.storage.history import MAX_LISTED
from bot.storage.storage import Storage
from pipeline.data.types import NoFixReason

TEMPLATES: Final = Path(__file__).parent / "templates"


class Pages:
    """One for each process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._github = settings.github_url.rstrip("/")
        self._style = (TEMPLATES / "style.css").read_text("utf-8")
        self._templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters: dict[str, Any] = {
            "stamp": _format_time,
            "inline": _render_inline,
            "duration": describe_minutes,
            "wait": _format_wait,
            "visible": make_visible,
            "web": _safe_url,
            "state": state_of,
            "minutes": minutes_of,
            "status_class": _name_style,
        }
        self._templates.filters.update(filters)
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        common = {
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "x-robots-tag": "noindex",
            # The address opens the page: linked sites must not see it.
            "referrer-policy": "no-referrer",
        }
        policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "frame-ancestors 'none'; "
        )
        live = f"{policy}script-src 'self'; connect-src 'self'; form-action 'none'"
        self.run_headers = {**common, "content-security-policy": live}
        """For the page of a run, whose only script is ours."""
        self.list_headers = {**common, "content-security-policy": f"{policy}form-action 'self'"}
        """For the page of all, which has a form and no script."""

    async def render_run(
        self, storage: Storage, run: Run, key: str = "", *, is_operator: bool = False
    ) -> str:
        """The page of one run. Other runs are links only for the operator: `key` opens this one.

        Raises redis-py's errors.
        """
        progress = await storage.progress.load(run.id)
        report = await load_report(storage, self._settings, run, progress)
        return self._render(
            "run.html",
            f"{run.repo.full_name}#{run.issue}",
            **self._live_values(run, progress, report),
            issue_url=self._issue_url(run),
            pull_url=_safe_url(run.pull_request_url),
            report=report,
            is_operator=is_operator,
            query="" if is_operator or not key else f"?key={self._settings.page_key(run.id)}",
            comment_url=self._comment_url,
            refresh=0 if run.status.final else 10,
        )

    async def render_live(self, storage: Storage, run: Run) -> str:
        """The part of a run's page that changes while it works. Raises redis-py's errors."""
        progress = await storage.progress.load(run.id)
        timeline = load_timeline(run, progress, await load_ledger(storage, run))
        found = self._templates.get_template("live.html")
        return found.render(**self._live_values(run, progress, RunReport(timeline=timeline)))

    async def render_runs(self, storage: Storage, query: Mapping[str, str]) -> str:
        """The page of all, narrowed to what `query` asks for. Raises redis-py's errors."""
        wanted = RunFilter.parse(query)
        found = await storage.run_queries.list_recent()
        listing = list_runs(found, wanted, most=MAX_LISTED)
        return self._render(
            "runs.html",
            "Runs",
            listing=listing,
            wanted=wanted,
            charts=draw_days(listing.days),
            queue=await load_queue(storage),
            workers=sorted(await storage.workers.list_living(), key=lambda one: one.name),
            refresh=0,
        )

    def _live_values(self, run: Run, progress: Progress, report: RunReport) -> dict[str, Any]:
        ends_at = run.finished_at or now()
        return {
            "run": run,
            "progress": progress,
            "timeline": report.timeline,
            "dollars": max(run.dollars, progress.dollars, sum(s.dollars for s in report.timeline)),
            "reason": _reason(run),
            "seconds": (ends_at - run.started_at).total_seconds() if run.started_at else None,
        }

    def _comment_url(self, run: Run) -> str:
        """The status comment on GitHub, which shows the page to those who may see it."""
        url = self._issue_url(run)
        return f"{url}#issuecomment-{run.comment_id}" if url and run.comment_id else ""

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
        return failures.failure_reason(run.failure, run.detail)
    if run.status is RunStatus.NO_FIX:
        reasons: dict[str, NoFixReason] = {one: one for one in no_fix.NO_FIX_REASONS}
        reason = reasons.get(run.detail)
        return no_fix.no_fix_reason(reason) if reason else ""
    if run.waiting_for is not None and not run.status.final:
        return failures.waiting_sentence(run.waiting_for)
    return ""


_STYLES: Final[Mapping[RunStatus, str]] = {
    RunStatus.OPENED_PULL_REQUEST: "good",
    RunStatus.FAILED: "bad",
    RunStatus.RUNNING: "now",
    RunStatus.QUEUED: "now",
}


def _name_style(run: Run) -> str:
    return _STYLES.get(run.status, "rest")


def _format_wait(seconds: tuple[float, float]) -> str:
    return describe_wait(*seconds)


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _safe_url(url: str) -> str:
    """Only an address of the web is a link."""
    return url if url.startswith(("https://", "http://")) else ""
