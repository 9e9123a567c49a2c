"""The HTML of the runs. The templates escape all text; a page loads only our style, and our script
if it is live."""

import asyncio
import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from bot.comments.evidence import describe_minutes
from bot.comments.failures import failure_reason, no_fix_reason, waiting_sentence
from bot.comments.status import describe_wait
from bot.data import marks
from bot.data.progress import Progress
from bot.data.run import Lane, Run, RunId, RunStatus, now
from bot.queue.position import Waiting, load_queue
from bot.safe_text import make_visible
from bot.server.run_list import (
    RunFilter,
    RunListing,
    draw_days,
    group_follow_ups,
    list_runs,
    minutes_of,
    state_of,
)
from bot.server.run_report import RunReport, load_ledger, load_report, load_timeline, load_title
from bot.settings import Settings
from bot.storage.history import MAX_LISTED
from bot.storage.storage import Storage
from bot.storage.workers import WorkerState
from pipeline.concurrency import gather_bounded
from prompts.text import describe_dollars

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
            "stamp": "{:%Y-%m-%d %H:%M} UTC".format,
            "inline": _render_inline,
            "duration": describe_minutes,
            "dollars": describe_dollars,
            "wait": describe_wait,
            "visible": make_visible,
            "web": _safe_url,
            "state": state_of,
            "minutes": minutes_of,
            "status_class": _name_style,
        }
        self._templates.filters.update(filters)
        # Templates say the same as comments.
        cast(dict[str, Any], self._templates.globals)["words"] = marks
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        common = {
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "x-robots-tag": "noindex",
            # Linked sites must not see the address, which opens the page.
            "referrer-policy": "no-referrer",
        }
        policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "frame-ancestors 'none'; "
        )
        live = f"{policy}script-src 'self'; connect-src 'self'; form-action 'none'"
        self.run_headers = {**common, "content-security-policy": live}
        """For the page of a run, which has our script."""
        self.list_headers = {**common, "content-security-policy": f"{policy}form-action 'self'"}
        """For the list, which has a form and no script."""

    async def render_run(self, storage: Storage, run: Run, key: str, *, is_operator: bool) -> str:
        """The page of one run. Only for the operator it links to others: `key` opens no other.

        Raises redis-py's errors.
        """
        progress = await storage.progress.load(run.id)
        report = await load_report(storage, self._settings, run, progress)
        return await self.fill_run(run, progress, report, key, is_operator=is_operator)

    async def fill_run(
        self, run: Run, progress: Progress, report: RunReport, key: str = "", *, is_operator: bool
    ) -> str:
        """The page of one run; see `render_run`."""
        return await self._render(
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
        values = self._live_values(run, progress, RunReport(timeline=timeline))
        return await asyncio.to_thread(found.render, **values)

    async def render_runs(self, storage: Storage, query: Mapping[str, str]) -> str:
        wanted = RunFilter.parse(query)
        found = await storage.run_queries.list_recent()
        listing = list_runs(found, wanted, most=MAX_LISTED)
        titles = await gather_bounded(8, (load_title(storage, run) for run in listing.runs))
        return await self.fill_runs(
            listing,
            wanted,
            {run.id: title for run, title in zip(listing.runs, titles, strict=True)},
            queue=[one for lane in Lane for one in await load_queue(storage, lane)],
            workers=sorted(await storage.workers.list_living(), key=lambda one: one.name),
        )

    async def fill_runs(
        self,
        listing: RunListing,
        wanted: RunFilter,
        titles: Mapping[RunId, str],
        *,
        queue: Sequence[Waiting],
        workers: Sequence[WorkerState],
    ) -> str:
        """The list of runs; see `render_runs`."""
        return await self._render(
            "runs.html",
            "Runs",
            listing=listing,
            groups=group_follow_ups(listing.runs),
            titles=titles,
            wanted=wanted,
            charts=draw_days(listing.days),
            queue=queue,
            workers=workers,
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
        url = self._issue_url(run)
        return f"{url}#issuecomment-{run.comment_id}" if url and run.comment_id else ""

    def _issue_url(self, run: Run) -> str:
        owner, name = quote(run.repo.owner, safe=""), quote(run.repo.name, safe="")
        return _safe_url(f"{self._github}/{owner}/{name}/issues/{run.issue}")

    async def _render(self, template: str, heading: str, **values: Any) -> str:
        """In a thread: a large page takes seconds, and webhooks do not wait for it."""
        found = self._templates.get_template(template)
        return await asyncio.to_thread(found.render, heading=heading, style=self._style, **values)


def _render_inline(text: str) -> Markup:
    """Render one of our sentences: Markdown in which quotations are escaped."""
    return Markup(_MARKDOWN.renderInline(text))  # noqa: S704 - reads neither HTML nor links


_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).disable(
    ["link", "image", "autolink", "html_inline"]
)


def _reason(run: Run) -> str:
    """Why there is no pull request, in Markdown; empty if there is one, or still may be."""
    if run.failure is not None:
        return failure_reason(run.failure, run.facts)
    if run.no_fix is not None:
        return no_fix_reason(run.no_fix)
    if run.waiting_for is not None and not run.status.final:
        return waiting_sentence(run.waiting_for)
    return ""


def _name_style(run: Run) -> str:
    styles = {RunStatus.OPENED_PULL_REQUEST: "good", RunStatus.FAILED: "bad"}
    return styles.get(run.status, "rest" if run.status.final else "now")


def _safe_url(url: str) -> str:
    """The address, if it begins with `http:` or `https:`; else empty."""
    return url if url.startswith(("https://", "http://")) else ""
