"""The reply to `stats`: the outcomes of the bot's work in a repository."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from bot.data.run import RunStatus
from bot.safe_text import MARKER_PREFIX
from pipeline.codebase.text import pluralize

MIN_FOR_RATE: Final = 10
"""The smallest number of which a rate is shown."""


class PullCounts(NamedTuple):
    """Counts of our own pull requests that were opened in the period."""

    open: int = 0
    merged: int = 0
    closed: int = 0
    """Without a merge."""
    reverted: int = 0
    """Of the merged ones."""
    recorded: int = 0
    """Of the merged ones, those whose cost is in our records."""
    first_choice: int = 0
    swapped: int = 0
    """Of the merged ones, those where `use` replaced the first choice."""
    looked_at: int = 0
    """Of the merged ones, those whose commits were read."""
    by_people: int = 0
    """Of these, those with a commit by somebody else."""
    not_all_pulls: bool = False
    """The repository has more pull requests from the period than were read."""
    not_all_commits: bool = False
    """The repository has more commits from the period than were searched for reverts."""

    @property
    def total(self) -> int:
        return self.open + self.merged + self.closed


class Stats(NamedTuple):
    """The outcomes of our work in a period."""

    period: str
    """When, as the end of a sentence: `in the last 90 days`."""
    since: datetime
    begins: datetime | None
    """When the oldest run in our records ended; None if there is no run."""
    runs: Mapping[RunStatus, int]
    """How many runs that were to fix an issue ended with each status."""
    others: int
    """The number of other runs: plans, comparisons, swapped edits, paid follow-ups."""
    dollars: float
    """The cost of all runs at list prices."""
    pulls: PullCounts


def how_many_days(name: str, most: int) -> str:
    """To `stats` without a valid number of days."""
    return f"Please give a number of days from 1 to {most}, as in `/{name} stats 30`."


def render_stats(stats: Stats) -> str:
    """To `stats`."""
    text = [f"**My work in this repository {stats.period}.** {_coverage_sentence(stats)}"]
    if stats.runs:
        rows = [_outcome_row(status, count) for status, count in _group_outcomes(stats.runs)]
        text.append(_bullet_list(f"Of {pluralize(sum(stats.runs.values()), 'run')} that were to "
                                 "fix an issue:", rows))  # fmt: skip
    if stats.pulls.total:
        text += _pull_sections(stats.pulls)
    else:
        text.append("I opened no pull requests here in that time.")
    text += [_draw_results(stats), _cost_sentence(stats), _omissions_note(stats.pulls)]
    return "\n\n".join(one for one in text if one)


def summary_marker(month: str) -> str:
    """Identifies the summary of a month (`YYYY-MM`); invisible on GitHub."""
    return f"{MARKER_PREFIX}summary month={month} -->"


def render_summary(stats: Stats, marker: str) -> str:
    """The text of a monthly summary."""
    note = (
        "<sub>I write this once a month because this repository's settings have "
        "`monthly_summary: true`. Close this issue whenever you like.</sub>"
    )
    return f"{render_stats(stats)}\n\n{note}\n\n{marker}\n"


def _coverage_sentence(stats: Stats) -> str:
    if stats.begins is None:
        return "I have no records of runs in this repository."
    if stats.begins > stats.since:
        return (
            f"My records of runs begin on {_format_day(stats.begins)}; earlier runs are not "
            "counted. The outcomes of pull requests come from GitHub."
        )
    return "The runs come from my records, the outcomes of pull requests from GitHub."


def _format_day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


_OUTCOMES: Final = (
    ((RunStatus.OPENED_PULL_REQUEST,), "opened a pull request"),
    ((RunStatus.NO_FIX,), "opened nothing: I found no fix that I was sure enough of"),
    ((RunStatus.FAILED,), "failed"),
    ((RunStatus.STOPPED,), "stopped by a person"),
    (
        (RunStatus.NEEDS_CONFIRMATION, RunStatus.REFUSED),
        "not started: waiting for confirmation, or refused",
    ),
)


def _draw_results(stats: Stats) -> str:
    """A picture that GitHub draws, of what became of all runs; empty if there is little to see."""
    pulls = stats.pulls
    slices = {
        "merged": pulls.merged - pulls.reverted,
        "merged, then reverted": pulls.reverted,
        "closed without a merge": pulls.closed,
        "open": pulls.open,
        "no fix found": stats.runs.get(RunStatus.NO_FIX, 0),
        "failed": stats.runs.get(RunStatus.FAILED, 0),
    }
    shown = [f'    "{name}" : {count}' for name, count in slices.items() if count > 0]
    if len(shown) < 2:
        return ""
    lines = ["pie showData", "    accTitle: Results of my work", "    title Results", *shown]
    return "\n".join(["```mermaid", *lines, "```"])


def _group_outcomes(runs: Mapping[RunStatus, int]) -> list[tuple[str, int]]:
    counted = [(words, sum(runs.get(one, 0) for one in ends)) for ends, words in _OUTCOMES]
    return [(words, count) for words, count in counted if count]


def _outcome_row(words: str, count: int) -> str:
    return f"{count} {words}"


def _pull_sections(pulls: PullCounts) -> list[str]:
    merged = f"{pulls.merged} merged"
    if pulls.reverted:
        merged += f", {pulls.reverted} of them reverted since"
    rows = [merged, f"{pulls.closed} closed without a merge", f"{pulls.open} open"]
    text = [_bullet_list(f"Of my {pluralize(pulls.total, 'pull request')}:", rows)]
    return [*text, _rates_sentence(pulls), _candidates_sentence(pulls), _people_sentence(pulls)]


def _rates_sentence(pulls: PullCounts) -> str:
    decided = pulls.merged + pulls.closed
    if decided < MIN_FOR_RATE:
        return ""
    text = f"Of the {decided} that were merged or closed, {pulls.merged / decided:.0%} were merged"
    if pulls.merged >= MIN_FOR_RATE:
        text += f", and {pulls.reverted / pulls.merged:.0%} of the merged ones were reverted"
    return f"{text}."


def _candidates_sentence(pulls: PullCounts) -> str:
    if not pulls.merged:
        return ""
    text: list[str] = []
    if pulls.first_choice:
        text.append(f"{pulls.first_choice} held my first choice")
    if pulls.swapped:
        text.append(f"{pulls.swapped} held another of my edits (`use`)")
    unknown = pulls.merged - pulls.first_choice - pulls.swapped
    if unknown:
        text.append(f"{unknown} held an edit that is not in my records")
    return f"Of the merged ones, {', '.join(text)}."


def _people_sentence(pulls: PullCounts) -> str:
    if not pulls.looked_at:
        return ""
    which = "the" if pulls.looked_at == pulls.merged else "the latest"
    had = pulls.by_people or "none"
    if pulls.looked_at == 1:
        some = "" if pulls.by_people else "no "
        return f"{which.capitalize()} merged one had {some}commits by other people."
    return f"Of {which} {pulls.looked_at} merged ones, {had} had commits by other people."


def _omissions_note(pulls: PullCounts) -> str:
    text: list[str] = []
    if pulls.not_all_pulls:
        text.append("I looked only at those older pull requests that are in my records")
    if pulls.not_all_commits:
        text.append("I searched only the latest commits for reverts")
    return f"<sub>There was too much to read: {'; '.join(text)}.</sub>" if text else ""


def _cost_sentence(stats: Stats) -> str:
    if not stats.dollars:
        return ""
    recorded, merged = stats.pulls.recorded, stats.pulls.merged
    text = f"According to my records, this cost ${stats.dollars:.2f} at list prices"
    if stats.others:
        text += f", including {pluralize(stats.others, 'other run')} (plans, follow-ups)"
    if recorded:
        which = "merged one" if recorded == merged else f"of the {recorded} merged ones on record"
        text += f": ${stats.dollars / recorded:.2f} for each {which}"
    return f"{text}."


def _bullet_list(head: str, rows: list[str]) -> str:
    return "\n".join([head, "", *(f"- {row}" for row in rows)])
