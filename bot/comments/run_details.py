"""Which files the model saw and how they were found: a report for programs, a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from bot.comments.search import render_search
from bot.markdown import code, details, prose
from pipeline.codebase.text import agree, pluralize
from pipeline.types import Account, Context, Findings, SearchRecord, ShownFile

_STAGES = ("embedding", "relevance", "ranking")
_MAX_ROWS = 40
"""Rows of the table; further files are only counted."""
_METHOD_SENTENCES = {
    "scout": "The scout read every source file.",
    "words, then scout": "The scout read the source files that share the most words with the "
    "issue.",
    "words": "No scout model is configured: files were chosen by the words that they share with "
    "the issue, and ranked by the solver model.",
}
_UNLISTED_REASONS = {
    "scout": "irrelevant to the scout, or behind those that were listed",
    "words, then scout": "not read by the scout, irrelevant to it, or behind those that "
    "were listed",
    "words": "less in common with the issue than those that were listed",
}

_EXPLORED = (
    "A sample that explores is shown those of these files for which there is room, the most useful "
    "first, and the paths of the others; it reads by commands what it needs, which is not counted "
    "here."
)


class ContextReport(BaseModel):
    """`context` in `report.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    way: str
    files: int
    read: int
    read_tokens: int
    shown_tokens: int
    compression: float
    """How many times fewer tokens were shown than searched."""
    unknown: int
    invented: int
    meaning: str
    """How an embedding model took part; empty if none was needed."""
    seconds: float
    dollars: float
    shown: tuple[ShownFile, ...]
    dropped: tuple[str, ...]
    not_read: tuple[str, ...]
    search: SearchRecord | None = None
    """The lines that were thought to have to change; null with the strategy `samples`."""


def build_context_report(
    context: Context | None, accounts: Sequence[Account], seconds: float
) -> ContextReport | None:
    """None for a run that found no context."""
    if context is None or context.findings is None:
        return None
    found = context.findings
    return ContextReport(
        way=found.way,
        files=found.files,
        read=found.read,
        read_tokens=found.read_tokens,
        shown_tokens=_count_tokens(found),
        compression=round(found.compression, 1),
        unknown=found.unknown,
        invented=found.invented,
        meaning=found.meaning,
        seconds=round(seconds, 3),
        dollars=_sum_dollars(accounts),
        shown=found.shown,
        dropped=context.dropped,
        not_read=context.not_read,
        search=context.search,
    )


def render_context(context: Context, accounts: Sequence[Account], seconds: float = 0) -> str:
    """Folded sections: the files with reasons and tokens, the compression, time and price; and
    what a search named.

    Empty if the way to the files was not recorded. `seconds` of 0 are omitted.
    """
    found = context.findings
    if found is None:
        return ""
    explored = any(account.stage == "exploring" for account in accounts)
    sentences = [
        _METHOD_SENTENCES[found.way],
        f"{'Chosen for the model:' if explored else 'The model was shown'} "
        f"{_count_tokens(found):,} of {found.read_tokens:,} tokens, "
        f"{found.compression:.1f} times fewer. Cost: ${_sum_dollars(accounts):.4f} at list prices"
        + (f", {seconds:.0f} s." if seconds else "."),
    ]
    if explored:
        sentences.append(_EXPLORED)
    if found.unknown:
        sentences.append(
            f"The scout gave no readable verdict on {pluralize(found.unknown, 'file')}: "
            "ranked last."
        )
    if unneeded := set(context.dropped) & set(context.unneeded):
        sentences.append(
            f"The solver model left {pluralize(len(unneeded), 'file')} out of its ranking as not "
            "needed."
        )
    if found.listed and found.files > found.listed:
        number = found.files - found.listed
        sentences.append(
            f"{pluralize(number, 'file')} {agree(number, 'was', 'were')} not listed for the "
            f"ranking: {_UNLISTED_REASONS[found.way]}."
        )
    if found.invented:
        sentences.append(
            f"Removed from the rankings: {pluralize(found.invented, 'nonexistent path')}."
        )
    if found.meaning:
        sentences.append(prose(found.meaning, 300))
    sentences += [prose(sentence, 300) for sentence in context.not_read]
    how = "chosen for" if explored else "shown to"
    title = f"Files: {len(found.shown)} of {found.files:,} {how} the model"
    section = details(title, f"{' '.join(sentences)}\n\n{_render_table(found)}")
    return f"{section}\n\n{render_search(context.search)}" if context.search else section


def _render_table(found: Findings) -> str:
    """Why a file was chosen only where a model read it: words in common tell nothing."""
    told = found.way != "words"
    rows = (
        ["| file | tokens | why |", "|---|--:|---|"] if told else ["| file | tokens |", "|---|--:|"]
    )
    for file in found.shown[:_MAX_ROWS]:
        name = code(file.path) + (" (in parts)" if file.partial else "")
        row = f"| {name} | {file.tokens:,} |"
        why = prose(" ".join(file.why.split()).replace("|", "¦"), 200)
        rows.append(f"{row} {why} |" if told else row)
    left = len(found.shown) - _MAX_ROWS
    return "\n".join(rows) + (f"\n\nAnd {left} more." if left > 0 else "")


def _count_tokens(found: Findings) -> int:
    return sum(file.tokens for file in found.shown)


def _sum_dollars(accounts: Sequence[Account]) -> float:
    return sum(account.dollars for account in accounts if account.stage in _STAGES)
