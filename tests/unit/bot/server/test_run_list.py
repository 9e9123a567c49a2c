"""Days, pictures and pages of the list of runs."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from jinja2 import Environment, FileSystemLoader

from bot.data.run import Mode, Run, RunId, RunStatus, now
from bot.server.pages import TEMPLATES
from bot.server.run_list import (
    DAYS,
    PER_PAGE,
    Chart,
    RunFilter,
    draw_days,
    group_follow_ups,
    list_runs,
    summarize_days,
)
from sandbox.frozen import replace
from tests.support.data.publishing import a_run

TODAY = date(2026, 3, 1)

SVG = "{http://www.w3.org/2000/svg}"


def ended(days: float, minutes: float, status: RunStatus = RunStatus.NO_FIX) -> Run:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC) - timedelta(days=days)
    return a_run(
        status=status, started_at=at - timedelta(minutes=minutes), finished_at=at, dollars=1.5
    )


def draw(charts: Iterable[Chart]) -> list[ET.Element]:
    """The pictures as a page shows them."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    macros: Any = environment.get_template("figures.html").module
    figures = [ET.fromstring(str(macros.draw(chart)).strip()) for chart in charts]
    return [picture for figure in figures for picture in figure.findall(f"{SVG}svg")]


def test_a_day_counts_ends_dollars_and_the_median_of_answers_only() -> None:
    opened = RunStatus.OPENED_PULL_REQUEST
    runs = [ended(0, 2), ended(0, 4, opened), ended(0, 99, RunStatus.STOPPED), ended(1, 7, opened),
            ended(DAYS, 1), a_run()]  # fmt: skip
    days = summarize_days(runs, TODAY)
    assert len(days) == DAYS
    last = days[-1]
    assert (last.opened, last.no_fix, last.failed, last.others) == (1, 1, 0, 1)
    assert (last.minutes, last.dollars) == (3, 4.5)
    assert (days[0].day, days[0].ended, days[0].minutes) == (date(2026, 1, 31), 0, None)
    charts = draw_days(days)
    pictures = draw(charts)
    assert [picture.get("aria-labelledby") for picture in pictures] == [
        f"{name}-title {name}-text" for name in ("ends", "minutes", "dollars")
    ]
    assert "$4.50 on 2026-03-01" in (pictures[2].findtext(f"{SVG}desc") or "")
    assert [len(picture.findall(f"{SVG}rect")) for picture in pictures] == [4, 2, 2]
    for bar in (bar for picture in pictures for bar in picture.iter(f"{SVG}rect")):
        x, y, width, height = (float(bar.get(key, "")) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= 320
        assert 0 <= y < y + height <= 150


def test_pages_keep_the_filter_and_a_cut_is_said() -> None:
    runs = [a_run(status=RunStatus.NO_FIX, finished_at=now()) for _ in range(PER_PAGE + 1)]
    wanted = RunFilter.parse({"person": "@Alice", "page": "2", "state": "no fix"})
    listing = list_runs(runs, wanted, most=len(runs))
    assert (len(listing.runs), listing.pages, listing.found) == (1, 2, PER_PAGE + 1)
    assert listing.since is not None
    assert list_runs(runs, wanted, most=2000).since is None
    assert wanted.to_query(page=1) == "?state=no+fix&person=Alice"
    assert wanted.to_query(page=3) == "?state=no+fix&person=Alice&page=3"


def test_no_run_makes_empty_pictures() -> None:
    charts = draw_days(list_runs([], RunFilter(), most=10).days)
    for picture in draw(charts):
        assert not picture.findall(f"{SVG}rect")
        assert "Nothing" in (picture.findtext(f"{SVG}desc") or "")


def test_follow_ups_stand_under_the_run_that_opened_their_pull_request() -> None:
    def tended(name: str, pull: int) -> Run:
        return a_run(id=RunId(name), issue=pull, mode=Mode.FOLLOW_UP)

    opened = a_run(id=RunId("opened"), issue=7, pull_request=12)
    other = a_run(id=RunId("other"), issue=12)
    used = replace(opened, id=RunId("used"), mode=Mode.USE, status=RunStatus.SWAPPED)
    runs = [tended("new", 12), used, other, tended("old", 12), opened]
    runs += [tended("b", 20), tended("a", 20)]
    assert [(run.id, [one.id for one in below]) for run, below in group_follow_ups(runs)] == [
        ("opened", ["new", "used", "old"]),
        ("other", []),
        ("b", ["a"]),
    ]
