"""What the bot says of what came of its work in a repository: to `stats`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from bot.types import RunStatus
from pipeline.codebase.text import pluralize

MIN_FOR_RATE: Final = 10
"""Of how many a rate is told; one of fewer says little."""


class PullCounts(NamedTuple):
    """Our own pull requests that were opened in the time, counted."""

    open: int = 0
    merged: int = 0
    closed: int = 0
    """Without a merge."""
    reverted: int = 0
    """Of the merged."""
    recorded: int = 0
    """Of the merged, those whose cost is in our records."""
    first_choice: int = 0
    swapped: int = 0
    """Of the merged, those that held another edit than the first choice, by `use`."""
    looked_at: int = 0
    """Of the merged, those whose commits were read."""
    by_people: int = 0
    """Of these, those with a commit of somebody else."""
    not_all_pulls: bool = False
    """The repository has more pull requests of that time than were read."""
    not_all_commits: bool = False
    """It has more commits since, among which reverts are looked for, than were read."""

    @property
    def total(self) -> int:
        return self.open + self.merged + self.closed


class Stats(NamedTuple):
    """What came of our work in the last `days`."""

    days: int
    since: datetime
    begins: datetime | None
    """When the oldest run that is in our records ended; None: they hold none."""
    runs: Mapping[RunStatus, int]
    """Of those meant to fix something, how many ended how."""
    others: int
    """Other runs: plans, comparisons, exchanged edits, paid follow-ups."""
    dollars: float
    """Of all of them, at list prices."""
    pulls: PullCounts


def how_many_days(name: str, most: int) -> str:
    """To `stats` with what is no number of days."""
    return f"Please give a number of days from 1 to {most}, as in `/{name} stats 30`."


def render_stats(stats: Stats) -> str:
    """To `stats`."""
    days = "24 hours" if stats.days == 1 else pluralize(stats.days, "day")
    text = [f"**My work in this repository, the last {days}.** {_coverage_sentence(stats)}"]
    if stats.runs:
        rows = [_outcome_row(status, count) for status, count in _group_outcomes(stats.runs)]
        text.append(_bullet_list(f"Of {pluralize(sum(stats.runs.values()), 'run')} meant to fix "
                            "an issue:", rows))  # fmt: skip
    if stats.pulls.total:
        text += _pull_sections(stats.pulls)
    else:
        text.append("I opened no pull request here in that time.")
    text += [_cost_sentence(stats), _omissions_note(stats.pulls)]
    return "\n\n".join(one for one in text if one)


def _coverage_sentence(stats: Stats) -> str:
    if stats.begins is None:
        return "My records hold no run of this repository."
    if stats.begins > stats.since:
        return (
            f"My records of its runs begin on {_format_day(stats.begins)}; those before are not counted. "
            "What became of pull requests is as GitHub has it."
        )
    return "Runs are counted by my records; what became of pull requests is as GitHub has it."


def _format_day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


_OUTCOMES: Final = (
    ((RunStatus.OPENED_PULL_REQUEST,), "opened a pull request"),
    ((RunStatus.NO_FIX,), "opened nothing: no fix that I was sure enough of"),
    ((RunStatus.FAILED,), "failed"),
    ((RunStatus.STOPPED,), "stopped by somebody"),
    ((RunStatus.NEEDS_CONFIRMATION, RunStatus.REFUSED), "not begun: asked back, or refused"),
)


def _group_outcomes(runs: Mapping[RunStatus, int]) -> list[tuple[str, int]]:
    counted = [(words, sum(runs.get(one, 0) for one in ends)) for ends, words in _OUTCOMES]
    return [(words, count) for words, count in counted if count]


def _outcome_row(words: str, count: int) -> str:
    return f"{count} {words}"


def _pull_sections(pulls: PullCounts) -> list[str]:
    merged = f"{pulls.merged} merged"
    if pulls.reverted:
        merged += f", of which {pulls.reverted} reverted since"
    rows = [merged, f"{pulls.closed} closed without a merge", f"{pulls.open} open"]
    text = [_bullet_list(f"Of {pluralize(pulls.total, 'pull request')} of mine:", rows)]
    return [*text, _rates_sentence(pulls), _candidates_sentence(pulls), _people_sentence(pulls)]


def _rates_sentence(pulls: PullCounts) -> str:
    decided = pulls.merged + pulls.closed
    if decided < MIN_FOR_RATE:
        return ""
    text = f"Of the {decided} that are decided, {pulls.merged / decided:.0%} were merged"
    if pulls.merged >= MIN_FOR_RATE:
        text += f", of which {pulls.reverted / pulls.merged:.0%} were reverted"
    return f"{text}."


def _candidates_sentence(pulls: PullCounts) -> str:
    if not pulls.merged:
        return ""
    text: list[str] = []
    if pulls.first_choice:
        text.append(f"{pulls.first_choice} held my first choice")
    if pulls.swapped:
        text.append(f"{pulls.swapped} another of my edits (`use`)")
    unknown = pulls.merged - pulls.first_choice - pulls.swapped
    if unknown:
        text.append(f"{unknown} one that my records do not tell")
    return f"Of the merged, {', '.join(text)}."


def _people_sentence(pulls: PullCounts) -> str:
    if not pulls.looked_at:
        return ""
    which = "the" if pulls.looked_at == pulls.merged else "the latest"
    had = pulls.by_people or "none"
    return f"Of {which} {pulls.looked_at} merged, {had} had commits of other people."


def _omissions_note(pulls: PullCounts) -> str:
    text: list[str] = []
    if pulls.not_all_pulls:
        text.append("of the older pull requests I looked only at those in my records")
    if pulls.not_all_commits:
        text.append("I looked for reverts among the latest commits only")
    return f"<sub>There was too much to read all: {'; '.join(text)}.</sub>" if text else ""


def _cost_sentence(stats: Stats) -> str:
    if not stats.dollars:
        return ""
    recorded, merged = stats.pulls.recorded, stats.pulls.merged
    text = f"It cost ${stats.dollars:.2f} at list prices by my records"
    if stats.others:
        text += f", {pluralize(stats.others, 'other run')} (plans, follow-ups) among it"
    if recorded:
        which = "merged one" if recorded == merged else f"of the {recorded} merged ones they hold"
        text += f": ${stats.dollars / recorded:.2f} for each {which}"
    return f"{text}."


def _bullet_list(head: str, rows: list[str]) -> str:
    return "\n".join([head, "", *(f"- {row}" for row in rows)])
