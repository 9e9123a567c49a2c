"""How often the right files and places are found."""

import asyncio
import glob
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed
from pipeline.codebase.unified_diff import Hunk, parse_diff
from pipeline.context.files.sources import find_sources
from pipeline.context.outline import Outline, outline_of
from pipeline.context.retrieval.prefilter import prefilter
from pipeline.context.scan import scan
from pipeline.data.code_places import Context, Located
from pipeline.data.types import Issue
from pipeline.lab.bundles import FinishedRun
from pipeline.lab.dataset import BadData, Dataset, LocatedInstance
from pipeline.lab.render import PER_CENT, line_chart, section, table
from pipeline.lab.scoring import LocationScore, percent
from pipeline.localisation.stages import definitions_around
from pipeline.models.base import Model
from pipeline.selection.scoring.canonical import read_base
from pipeline.store import Store
from prompts.text import pluralize
from sandbox.frozen import Frozen

BUDGETS: Final = (4_000, 8_000, 16_000, 32_000, 60_000, 128_000)
"""Context budgets in tokens."""
PREFILTERED_FILES: Final = 100
"""How many files the prefilter leaves to the scout when both work together."""


class MethodRecall(Frozen):
    """One method of finding files, over all instances."""

    recall: dict[int, float]
    """Budget in tokens to the per cent of instances whose edited files all fit in."""
    tokens: dict[int, float]
    """Budget to the mean tokens shown."""
    compression: float
    """Mean over instances of all source tokens over tokens shown at the largest budget."""
    read_tokens: float
    """Mean tokens that a model read to find the files."""


class Recall(Frozen):
    instances: int
    missing: dict[str, str]
    """Instance to the reason it was not measured: no tree, or an edit that changes no source."""
    ways: dict[str, MethodRecall]


@dataclass(frozen=True)
class RecallCase:
    """One instance with the ranking of each method."""

    needed: frozenset[str]
    tokens: Mapping[str, int]
    orders: Mapping[str, Sequence[str]]
    read: Mapping[str, int]
    scan_seconds: float = 0.0


class CannotMeasure(BadData):
    """An instance cannot be measured or graded; the sentence says why. Untrusted."""


def find_clone(trees: Path, repo: str) -> Path | None:
    """The bare clone of `owner/name` in a folder of clones, whatever its name."""
    owner, _, name = repo.partition("/")
    stems = (f"{owner}+{name}/repo", f"{owner}+{name}", f"{owner}__{name}", f"{owner}/{name}", name)
    places = [trees / f"{stem}{suffix}" for stem in stems for suffix in ("", ".git", "/.git")]
    # A fork has the commits too; one that does not is noticed.
    places += sorted(trees.glob(f"*+{glob.escape(name)}/repo"))
    return next((place for place in places if (place / "objects").is_dir()), None)


async def measure_case(
    row: LocatedInstance,
    trees: Path,
    scout: Model | None,
    store: Store,
) -> RecallCase:
    """Rank the files of one instance by each method. `store` keeps the scout's verdicts.

    Raises:
        CannotMeasure: the tree or the edited source is missing.
        ModelError: a model call failed.
    """
    sources = await find_sources(await open_base(trees, row.repo, row.base_commit))
    needed = (
        frozenset(re.findall(r"^--- a/(.+?)\t?$", row.patch, re.MULTILINE)) & sources.by_path.keys()
    )
    if not needed:
        raise CannotMeasure("Its edit changes no source file that exists before it.")
    issue = Issue(repository=row.repo, title="", body=row.problem_statement)
    hits = await prefilter(sources, issue, len(sources.files), fill_up=True)
    order = [hit.path for hit in hits.kept]
    orders: dict[str, list[str]] = {"words": order}
    read = {"words": 0}
    seconds = 0.0
    if scout is not None:
        began = time.monotonic()
        verdicts = await scan(sources, sources.files, issue, scout=scout, store=store)
        seconds = time.monotonic() - began
        kept = {v.path: v.answer == "unknown" for v in verdicts if v.answer != "not relevant"}
        orders["scout"] = sorted((p for p in order if p in kept), key=lambda path: kept[path])
        first = set(order[:PREFILTERED_FILES])
        orders["both"] = [path for path in orders["scout"] if path in first]
        read["scout"] = sum(file.tokens for file in sources.files)
        read["both"] = sum(sources.by_path[path].tokens for path in first)
    return RecallCase(needed, {f.path: f.tokens for f in sources.files}, orders, read, seconds)


def scope_of_clone(trees: Path, repo: str) -> str:
    """What shares environments: commits of one clone on this machine."""
    return f"{trees.resolve()} {repo}"


async def open_base(trees: Path, repo: str, commit: str) -> Codebase:
    """The codebase before an instance's edit, from its clone in `trees`.

    Raises:
        CannotMeasure: there is no clone, or it lacks the commit or a part of it.
    """
    tree = await asyncio.to_thread(find_clone, trees, repo)
    if tree is None:
        raise CannotMeasure(f"{trees} holds no clone of {repo}.")
    try:
        return await Codebase.open(tree, commit)
    except GitFailed as failed:
        if failed.command == "ls-tree":
            raise CannotMeasure(f"{tree} is not whole: {failed.words}.") from None
        raise CannotMeasure(f"{tree} has no commit {commit}.") from None


def compute_recall(cases: Sequence[RecallCase], missing: Mapping[str, str]) -> Recall:
    """The table over `cases`; empty without cases."""
    names = list(cases[0].orders) if cases else []
    ways = {name: _recall_of_method(cases, name) for name in names}
    return Recall(instances=len(cases), missing=dict(missing), ways=ways)


def _recall_of_method(cases: Sequence[RecallCase], name: str) -> MethodRecall:
    recall: dict[int, float] = {}
    tokens: dict[int, float] = {}
    last: list[int] = []
    for budget in BUDGETS:
        ranked = ([(path, case.tokens[path]) for path in case.orders[name]] for case in cases)
        taken = [files_within(files, budget) for files in ranked]
        found = [case.needed <= some.keys() for case, some in zip(cases, taken, strict=True)]
        last = [sum(some.values()) for some in taken]
        recall[budget] = 100 * sum(found) / len(cases)
        tokens[budget] = sum(last) / len(cases)
    whole = [sum(case.tokens.values()) for case in cases]
    return MethodRecall(
        recall=recall,
        tokens=tokens,
        compression=sum(a / max(1, b) for a, b in zip(whole, last, strict=True)) / len(cases),
        read_tokens=sum(case.read[name] for case in cases) / len(cases),
    )


def files_within(files: Iterable[tuple[str, int]], budget: int) -> dict[str, int]:
    """The whole files, paths with their tokens, that fit into `budget` in their order."""
    taken: dict[str, int] = {}
    for path, tokens in files:
        if tokens <= budget:
            taken[path] = tokens
            budget -= tokens
    return taken


def render_markdown(found: Recall) -> str:
    """The table in Markdown, with what was not measured."""
    missing = found.missing
    return "\n".join(
        [
            "# Recall of context\n",
            f"{pluralize(found.instances, 'instance')}: per cent for which all edited files fit "
            "into the given number of tokens. Files are taken whole, in the order of the "
            "prefilter: by the words they share with the issue; with `both`, the scout reads only "
            f"the first {PREFILTERED_FILES}. The solver does not rank.\n",
            *table(
                (
                    "way", *(f"{budget:,}" for budget in BUDGETS),
                    "tokens shown", "compression", "tokens read",
                ),
                [
                    (
                        name,
                        *(f"{way.recall[budget]:.1f}" for budget in BUDGETS),
                        f"{way.tokens[BUDGETS[-1]]:,.0f}",
                        f"{way.compression:.1f}",
                        f"{way.read_tokens:,.0f}",
                    )
                    for name, way in found.ways.items()
                ],
            ),
            *([f"Not measured: {pluralize(len(missing), 'instance')}.\n"] if missing else []),
            *(f"- `{name}`: {why}" for name, why in missing.items()),
            "",
        ]
    )  # fmt: skip


def render_svg(found: Recall) -> str:
    """Recall by budget, one line for each method."""
    lines = {name: way.recall for name, way in found.ways.items()}
    return render_recall_svg("Recall of the edited files", lines)


def render_recall_svg(title: str, lines: Mapping[str, Mapping[int, float]]) -> str:
    """A chart of recall in per cent by budget in tokens."""
    points = {name: list(recall.items()) for name, recall in lines.items()}
    return line_chart(title, "context, tokens", PER_CENT, points)


def recall_by_budget(shown: Sequence[tuple[Context, frozenset[str]]]) -> dict[int, float]:
    """Budget in tokens to the per cent of instances for which all files of the reference edit fit.

    The files are taken in the order of the ranking, as long as they fit; each instance is its
    context and those files.
    """
    cases = [
        ([(file.path, file.tokens) for file in context.files], needed) for context, needed in shown
    ]
    return {
        budget: percent(
            [float(needed <= files_within(files, budget).keys()) for files, needed in cases]
        )
        for budget in BUDGETS
        if shown
    }


def list_compressions(contexts: Sequence[Context]) -> tuple[float, ...]:
    """How many tokens were searched for each one shown, of each context that has both."""
    return tuple(
        context.findings.read_tokens / size
        for context in contexts
        if context.findings and (size := sum(file.tokens for file in context.files))
    )


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

    `code`: by instance, the unedited files, those that its reference changes among them; the
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


async def read_code(
    instances: Sequence[LocatedInstance], trees: Path, edits: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, str]]:
    """By instance, the unedited files that its reference and its `edits` change.

    An instance whose clone or base commit `trees` lacks is left out.
    """
    found: dict[str, dict[str, str]] = {}
    for one in instances:
        try:
            codebase = await open_base(trees, one.repo, one.base_commit)
        except CannotMeasure:
            continue
        changing = (one.patch, *edits.get(one.instance_id, ()))
        found[one.instance_id] = await read_base(codebase, changing)
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
    return section(
        "Localisation",
        "Per cent of instances for which every place of the reference edit is found; the places of "
        "an edit are those that it changes.",
        ("what names the place", "of", "chunk", "function", "file"),
        [
            (escape(name), f"{s.instances:,}", f"{s.chunk:.1f}", _show_function(s), f"{s.file:.1f}")
            for name, s in scores.items()
        ],
    )


def _show_function(score: LocationScore) -> str:
    if score.function is None:
        return ""
    part = f" of {score.functions:,}" if score.functions < score.instances else ""
    return f"{score.function:.1f}{part}"
