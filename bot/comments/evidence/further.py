"""The scripts that told the finalists apart, each with how it ended with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from bot.markdown import block, code, details
from pipeline.codebase.text import pluralize
from pipeline.selection.explain import describe_ends
from pipeline.selection.letters import name_edits
from pipeline.types import FurtherScript, VoteTable
from sandbox.base import Execution

MAX_SCRIPTS = 5
_OUTPUT = 1500
"""Characters of what a script prints."""


def render_further(
    further: Sequence[FurtherScript], table: VoteTable, order: Sequence[int], characters: int
) -> str:
    """Each script folded, cut to `characters`; empty if there is none. `order` decides who is A."""
    named = zip(table.candidates, name_edits(table, order), strict=True)
    names = [code(name, 80) if candidate.source else name for candidate, name in named]
    parts: list[str] = []
    for number, script in enumerate(further[:MAX_SCRIPTS], 1):
        which = f" {number} of {len(further)}" if len(further) > 1 else ""
        shown = [_describe_base(script.base), block(script.text, characters, "python")]
        shown += _render_outputs(script, names, characters)
        text = "\n\n".join(shown)
        ends = "; ".join(describe_ends(script, names))
        parts.append(details(f"Script{which} that told the best edits apart: {ends}", text))
    if len(further) > MAX_SCRIPTS:
        parts.append(f"And {pluralize(len(further) - MAX_SCRIPTS, 'further script')}.")
    return "\n\n".join(parts)


def _render_outputs(script: FurtherScript, names: Sequence[str], characters: int) -> list[str]:
    """What it printed with one edit that it passes and with one that it does not."""
    runs = list(zip(script.candidates, script.runs, strict=True))
    first = (
        next(((c, run) for c, run in runs if run.passed is one), None) for one in (True, False)
    )
    found = [(names[c], run.output) for c, run in filter(None, first)]
    most = min(characters, _OUTPUT)
    if len(found) == 2:
        found = _leave_out_equal_lines(found, most)
    return [
        f"With {name} it prints:\n\n{block(text, most)}" for name, text in found if text.strip()
    ]


def _leave_out_equal_lines(found: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Two outputs, one of which has more than `most` characters, without lines of both: what is
    only in one shows what the script found."""
    lines = [text.split("\n") for _, text in found]
    if max(len(text) for _, text in found) <= most:
        return list(found)
    both = set(lines[0]) & set(lines[1])
    shown: list[tuple[str, str]] = []
    for (name, _), own in zip(found, lines, strict=True):
        parts: list[str] = []
        for same, group in groupby(own, both.__contains__):
            those = list(group)
            left_out = f"[... {pluralize(len(those), 'line')} that both print ...]"
            parts += [left_out] if same and len(those) > 1 else those
        shown.append((name, "\n".join(parts)))
    return shown


def _describe_base(run: Execution) -> str:
    if run.exit_code in (0, 2):
        return f"On the original code it {'passes' if run.passed else 'fails'}."
    return "On the original code it comes to no verdict."
