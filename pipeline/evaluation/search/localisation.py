"""How often the places that a reference edit changes are found (SWE-Reasoner, Table 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed
from pipeline.context.outline import Outline, outline_of
from pipeline.edits.unified_diff import Hunk, parse_diff
from pipeline.evaluation.bundles import FinishedRun
from pipeline.evaluation.dataset import Dataset, LocatedInstance
from pipeline.evaluation.recall import find_clone
from pipeline.evaluation.scoring import LocationScore
from pipeline.evaluation.statistics import percent
from pipeline.search.localisation import definitions_around
from pipeline.types import Context, Located

BEST, ANY, CHOSEN = "best answer of the search", "any answer of the search", "chosen edit"
RIGHT, WRONG = "edits that resolve their instances", "edits that do not"
Row = tuple[bool, bool | None, bool]
"""Whether every file, definition and line of a reference is named; None: it is not known."""


class Spot(NamedTuple):
    """Lines of the unedited code, from 1; an insertion is the two lines that it separates."""

    path: str
    first: int
    last: int
    function: tuple[int, int] | None = None
    """First and last line of the innermost definition around; None if it is not known."""


def find_spots(diff: str) -> list[Spot]:
    """What `diff` changes of files that are there: a spot for each run of changed lines."""
    return [
        Spot(file.old, first, last)
        for file in parse_diff(diff)
        if file.old
        for hunk in file.hunks
        for first, last in _find_changed_lines(hunk)
    ]


def _find_changed_lines(hunk: Hunk) -> Iterable[tuple[int, int]]:
    line = hunk.start
    began: int | None = None
    for marker, _ in [*hunk.lines, (" ", "")]:
        if marker == " " and began is not None:
            yield (began, line - 1) if line > began else (max(1, line - 1), line)
            began = None
        elif marker != " " and began is None:
            began = line
        line += marker != "+"


def score_localisation(
    runs: Sequence[FinishedRun], references: Mapping[str, str]
) -> dict[str, LocationScore]:
    """The scores of what each run named, by the diffs of `references`, by instance.

    The definitions around an edit are known in files that the run's models saw whole; in others,
    its lines count.
    """
    ways: dict[str, Callable[[FinishedRun], list[list[Spot]]]] = {
        BEST: lambda run: [_to_spots(one) for one in _list_answers(run)[:1]],
        ANY: lambda run: [_to_spots(one) for one in _list_answers(run)],
        CHOSEN: _find_edit_spots,
    }
    found: dict[str, LocationScore] = {}
    for name, way in ways.items():
        rows: list[Row] = []
        for run in runs:
            wanted = find_spots(references.get(run.instance, ""))
            if wanted and (answers := way(run)):
                levels = [_compare(wanted, answer) for answer in answers]
                rows.append((any(r[0] for r in levels), any(r[1] for r in levels),
                             any(r[2] for r in levels)))  # fmt: skip
        if rows:
            found[name] = _average(rows)
    return found


def score_predictions(
    data: Dataset, references: Mapping[str, str], code: Mapping[str, Mapping[str, str]]
) -> dict[str, LocationScore]:
    """The scores of the edits of each member, and of all that are right and wrong.

    `code`: by instance, the texts before the edit of the files that its reference changes; the
    others count for files and chunks only.
    """
    rows: dict[str, list[Row]] = {RIGHT: [], WRONG: [], **{name: [] for name in data.members}}
    for instance in (one.instance_id for one in data.instances):
        wanted = find_spots(references.get(instance, ""))
        texts = code.get(instance, {})
        outlines = {path: outline_of(path, text) for path, text in texts.items()}
        for member in data.members:
            diff = data.patches[member].get(instance)
            if not wanted or diff is None:
                continue
            named = [_add_function(spot, outlines) for spot in find_spots(diff)]
            file, function, chunk = _compare(wanted, named)
            row = (file, function if instance in code else None, chunk)
            rows[member].append(row)
            rows[RIGHT if data.is_right(member, instance) else WRONG].append(row)
    return {name: _average(some) for name, some in rows.items() if some}


async def read_code(instances: Sequence[LocatedInstance], trees: Path) -> dict[str, dict[str, str]]:
    """By instance, the texts before the edit of the files that its reference changes.

    An instance whose clone or base commit `trees` lacks is left out.
    """
    found: dict[str, dict[str, str]] = {}
    for one in instances:
        clone = await asyncio.to_thread(find_clone, trees, one.repo)
        if clone is None:
            continue
        try:
            codebase = await Codebase.open(clone, one.base_commit)
        except GitFailed:
            continue
        paths = {spot.path for spot in find_spots(one.patch)} & codebase.files.keys()
        texts = {path: await codebase.read_text(path) for path in sorted(paths)}
        found[one.instance_id] = {path: text for path, text in texts.items() if text is not None}
    return found


def _average(rows: Sequence[Row]) -> LocationScore:
    known = [function for _, function, _ in rows if function is not None]
    return LocationScore(
        instances=len(rows),
        file=percent([float(file) for file, _, _ in rows]),
        function=percent([float(function) for function in known]) if known else None,
        functions=len(known),
        chunk=percent([float(chunk) for _, _, chunk in rows]),
    )


def _list_answers(run: FinishedRun) -> Sequence[Located]:
    search = run.context.search if run.context else None
    return search.located if search else ()


def _to_spots(located: Located) -> list[Spot]:
    """Named files count as files only: they have no lines."""
    files = [Spot(file.path, 0, -1) for file in located.files]
    return files + [Spot(p.path, p.first, p.last, p.function) for p in located.places]


def _find_edit_spots(run: FinishedRun) -> list[list[Spot]]:
    chosen = next((v.chosen for v in run.verdicts.values() if v.chosen is not None), None)
    if chosen is None or chosen >= len(run.candidates):
        return []
    spots = find_spots(run.candidates[chosen].patch.diff)
    return [_add_functions(spots, run.context)]


def _add_functions(spots: Sequence[Spot], context: Context | None) -> list[Spot]:
    whole = {f.path: f.text for f in context.files if not f.partial} if context else {}
    changed = {spot.path for spot in spots} & whole.keys()
    outlines = {path: outline_of(path, whole[path]) for path in changed}
    return [_add_function(spot, outlines) for spot in spots]


def _add_function(spot: Spot, outlines: Mapping[str, Outline]) -> Spot:
    outline = outlines.get(spot.path)
    around = definitions_around(outline, spot.first) if outline else []
    lines = (around[-1].first + 1, around[-1].last + 1) if around else None
    return spot._replace(function=lines)


def _compare(wanted: Sequence[Spot], named: Sequence[Spot]) -> tuple[bool, bool, bool]:
    """Whether the files, the functions and the lines of `wanted` are all among `named`."""
    return (
        {spot.path for spot in wanted} <= {spot.path for spot in named},
        all(any(_meets(w, n, n.function or (n.first, n.last)) for n in named) for w in wanted),
        all(any(_meets(w, n, (n.first, n.last)) for n in named) for w in wanted),
    )


def _meets(wanted: Spot, named: Spot, lines: tuple[int, int]) -> bool:
    first, last = lines
    return wanted.path == named.path and wanted.first <= last and first <= wanted.last


def render_localisation(scores: Mapping[str, LocationScore]) -> list[str]:
    """Lines of Markdown; none without scores."""
    if not scores:
        return []
    rows = [
        f"| {escape(name)} | {s.instances:,} | {s.chunk:.1f} | {_show_function(s)} | {s.file:.1f} |"
        for name, s in scores.items()
    ]
    return [
        "## Localisation\n",
        "Per cent of instances of which every place of the reference edit is found; of an edit, "
        "what it changes counts as found.\n",
        "| what names the place | of | chunk | function | file |",
        "|---|--:|--:|--:|--:|",
        *rows,
        "",
    ]


def _show_function(score: LocationScore) -> str:
    if score.function is None:
        return ""
    part = f" of {score.functions:,}" if score.functions < score.instances else ""
    return f"{score.function:.1f}{part}"
