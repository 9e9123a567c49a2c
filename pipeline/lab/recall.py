"""How often the context contains every file that must be edited (CodeMonkeys, Figure 3)."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed
from pipeline.codebase.text import pluralize
from pipeline.context.files.discover import find_sources
from pipeline.context.files.sources import Sources
from pipeline.context.relevance.scan import scan
from pipeline.context.search.embeddings import EmbeddingRanker
from pipeline.context.search.prefilter import prefilter
from pipeline.evaluation.dataset import LocatedInstance
from pipeline.evaluation.plots import Axis, line_chart
from pipeline.evaluation.statistics import percent
from pipeline.models.base import Model
from pipeline.store import Store
from pipeline.types import Context, Frozen, Issue

BUDGETS: Final = (4_000, 8_000, 16_000, 32_000, 60_000, 128_000)
"""Context budgets in tokens."""
PREFILTERED_FILES: Final = 100
"""How many files the prefilter leaves to the scout when both work together."""
WITH_EMBEDDINGS: Final = "words and meaning"
"""The name of the prefilter with an embedding model."""
_EDITED = re.compile(r"^--- a/(.+?)\t?$", re.MULTILINE)


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
    """The number of instances measured."""
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


class CannotMeasure(Exception):
    """An instance cannot be measured; the sentence says why."""


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
    ranker: EmbeddingRanker | None = None,
) -> RecallCase:
    """Rank the files of one instance by each method. `store` keeps the scout's verdicts.

    Raises:
        CannotMeasure: the tree or the edited source is missing.
        ModelError: a model call failed.
    """
    sources = await _open_sources(row, trees)
    needed = frozenset(_EDITED.findall(row.patch)) & sources.by_path.keys()
    if not needed:
        raise CannotMeasure("Its edit changes no source file that exists before it.")
    issue = Issue(repository=row.repo, title="", body=row.problem_statement)
    hits = await prefilter(sources, issue, len(sources.files), fill_up=True)
    order = [hit.path for hit in hits.kept]
    orders: dict[str, list[str]] = {"words": order}
    read = {"words": 0}
    if ranker is not None:
        joined = await prefilter(
            sources, issue, len(sources.files), fill_up=True, embedding_ranker=ranker
        )
        if not joined.embedding_used:
            raise CannotMeasure(joined.meaning)
        order = [hit.path for hit in joined.kept]
        orders[WITH_EMBEDDINGS], read[WITH_EMBEDDINGS] = order, 0
    if scout is not None:
        verdicts = await scan(sources, sources.files, issue, scout=scout, store=store)
        kept = {v.path: v.answer == "unknown" for v in verdicts if v.answer != "not relevant"}
        orders["scout"] = sorted((p for p in order if p in kept), key=lambda path: kept[path])
        first = set(order[:PREFILTERED_FILES])
        orders["both"] = [path for path in orders["scout"] if path in first]
        read["scout"] = sum(file.tokens for file in sources.files)
        read["both"] = sum(sources.by_path[path].tokens for path in first)
    return RecallCase(needed, {f.path: f.tokens for f in sources.files}, orders, read)


async def _open_sources(row: LocatedInstance, trees: Path) -> Sources:
    tree = find_clone(trees, row.repo)
    if tree is None:
        raise CannotMeasure(f"{trees} holds no clone of {row.repo}.")
    try:
        codebase = await Codebase.open(tree, row.base_commit)
    except GitFailed as failed:
        if failed.command == "ls-tree":
            raise CannotMeasure(f"{tree} is not whole: {failed.words}.") from None
        raise CannotMeasure(f"{tree} has no commit {row.base_commit}.") from None
    return await find_sources(codebase)


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
        taken = [_files_within(case, name, budget) for case in cases]
        found = [case.needed <= some for case, some in zip(cases, taken, strict=True)]
        last = [sum(case.tokens[p] for p in some) for case, some in zip(cases, taken, strict=True)]
        recall[budget] = 100 * sum(found) / len(cases)
        tokens[budget] = sum(last) / len(cases)
    whole = [sum(case.tokens.values()) for case in cases]
    return MethodRecall(
        recall=recall,
        tokens=tokens,
        compression=sum(a / max(1, b) for a, b in zip(whole, last, strict=True)) / len(cases),
        read_tokens=sum(case.read[name] for case in cases) / len(cases),
    )


def _files_within(case: RecallCase, name: str, budget: int) -> set[str]:
    """The whole files that fit, in order."""
    taken: set[str] = set()
    for path in case.orders[name]:
        if case.tokens[path] <= budget:
            taken.add(path)
            budget -= case.tokens[path]
    return taken


def render_markdown(found: Recall) -> str:
    """The table in Markdown, with what was not measured."""
    heads = " | ".join(f"{budget:,}" for budget in BUDGETS)
    rows = [
        f"| {name} | {' | '.join(f'{way.recall[b]:.1f}' for b in BUDGETS)} "
        f"| {way.tokens[BUDGETS[-1]]:,.0f} | {way.compression:.1f} | {way.read_tokens:,.0f} |"
        for name, way in found.ways.items()
    ]
    return "\n".join(
        [
            "# Recall of context\n",
            f"{pluralize(found.instances, 'instance')}: per cent whose edited files are all within "
            "so many tokens. Files are taken whole, in the order of the prefilter: by the words "
            "they share with the issue, and by meaning where an embedding model is set; "
            f"`both` lets the scout read the first {PREFILTERED_FILES} only. No solver ranks.\n",
            f"| way | {heads} | tokens shown | compression | tokens read |",
            "|---|" + "--:|" * (len(BUDGETS) + 3),
            *rows,
            "",
            *(
                [f"Not measured: {pluralize(len(found.missing), 'instance')}.\n"]
                if found.missing
                else []
            ),
            *(f"- `{name}`: {why}" for name, why in found.missing.items()),
            "",
        ]
    )


def render_svg(found: Recall) -> str:
    """Recall by budget, one line for each method."""
    lines = {name: way.recall for name, way in found.ways.items()}
    return render_recall_svg("Recall of the edited files", lines)


def render_recall_svg(title: str, lines: Mapping[str, Mapping[int, float]]) -> str:
    """A chart of recall in per cent by budget in tokens."""
    ticks = tuple(float(n) for n in (0, 32_000, 64_000, 96_000, 128_000))
    return line_chart(
        title,
        Axis("context, tokens", 0, BUDGETS[-1], ticks),
        Axis("instances, %", 0, 100, tuple(float(n) for n in range(0, 101, 20))),
        {
            name: [(float(budget), value) for budget, value in recall.items()]
            for name, recall in lines.items()
        },
    )


def recall_by_budget(shown: Sequence[tuple[Context, frozenset[str]]]) -> dict[int, float]:
    """Budget in tokens to the per cent of instances whose files of the reference edit all fit.

    The files are taken in the order of the ranking, as long as they fit; each instance is its
    context and those files.
    """
    return {
        budget: percent([float(needed <= _fit(context, budget)) for context, needed in shown])
        for budget in BUDGETS
        if shown
    }


def mean_compression(contexts: Sequence[Context]) -> float | None:
    """The mean of tokens searched over tokens shown; None if no context has both."""
    factors = [
        context.findings.read_tokens / size
        for context in contexts
        if context.findings and (size := sum(file.tokens for file in context.files))
    ]
    return fmean(factors) if factors else None


def _fit(context: Context, budget: int) -> set[str]:
    taken: set[str] = set()
    for file in context.files:
        if file.tokens <= budget:
            taken.add(file.path)
            budget -= file.tokens
    return taken
