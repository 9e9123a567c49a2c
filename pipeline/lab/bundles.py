"""Finished runs, and what their tests and edits cost."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import get_args

from pydantic import ValidationError

from pipeline.bundle import MANIFEST, BadBundle, read_bundle
from pipeline.data.code_places import Context
from pipeline.data.options import Options, SelectionMethod
from pipeline.data.types import Candidate, Issue, Patch, VoteTable
from pipeline.generation.editing import EditingState
from pipeline.generation.scripts import TestingState
from pipeline.lab.dataset import BadData
from pipeline.lab.scoring import sample_coverage
from pipeline.localisation.tree_search import SEARCH_STAGES
from pipeline.models.base import Price
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.replay import BundleStore, NotInBundle, open_replay
from pipeline.replies import Tag, only_tag_or_approval
from pipeline.run_errors import OtherFormat
from pipeline.selection.ties import ORM_STAGE
from pipeline.selection.verdict import BASE_KEY, BaseFiles, Verdict
from pipeline.selection.voting import earlier_revisions, vote
from pipeline.state import ReplyKind
from pipeline.workflows.outcome import EFFECTIVE_KEY, EffectiveSetup, load_context
from prompts.text import pluralize
from sandbox.frozen import replace


@dataclass(frozen=True)
class SampleCost:
    """What one sample had spent and written after each reply of its editing machine."""

    test: float
    """US dollars of its testing machine."""
    dollars: tuple[float, ...]
    """US dollars of its editing machine after 1, 2, 3 … replies."""
    edits: tuple[int, ...]
    """The number of its edits then."""


def cost_of(test: TestingState | None, edit: EditingState, price: Price) -> SampleCost | None:
    """None for a sample that an earlier Capuchin wrote: it did not save what each reply used."""
    if len(edit.usages) != len(edit.attempts):
        return None
    spent: list[float] = []
    edits: list[int] = []
    replies = [message.text for message in edit.messages if message.role == "assistant"]
    for usage, kind, reply in zip(edit.usages, edit.attempts, replies, strict=False):
        spent.append((spent[-1] if spent else 0.0) + price.of(usage))
        written = kind is ReplyKind.REVISED and _is_edit(reply)
        edits.append((edits[-1] if edits else 0) + written)
    return SampleCost(price.of(test.usage) if test else 0.0, tuple(spent), tuple(edits))


def _is_edit(reply: str) -> bool:
    tag, _ = only_tag_or_approval(reply, "edit", "script", "approve")
    return isinstance(tag, Tag) and tag.name == "edit"


PricedRun = tuple[Mapping[int, SampleCost], Mapping[int, Sequence[int] | None]]
"""A run's samples with an edit, and the resolving revisions of those that resolve it."""


def coverage_by_dollars(
    runs: Sequence[PricedRun | None],
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Mean US dollars an instance and coverage in per cent, by the number of samples.

    The points of one line are machines with at most 1, 2, 3 … replies. Counted is what the samples
    cost: their tests and their edits. Empty unless every reply's tokens and the resolving revisions
    of every resolving sample are known.
    """
    known = [run for run in runs if run is not None and run[0]]
    if not known or len(known) < len(runs):
        return {}
    if any(found is None for _, resolved in known for found in resolved.values()):
        return {}
    longest = max(len(cost.dollars) for costs, _ in known for cost in costs.values())
    widest = max(len(costs) for costs, _ in known)
    return {
        pluralize(width, "sample"): tuple(
            (
                fmean(_dollars_at(costs, width, depth) for costs, _ in known),
                100
                * fmean(
                    sample_coverage(_edits_at(costs, depth), resolved, width)
                    for costs, resolved in known
                ),
            )
            for depth in range(1, longest + 1)
        )
        for width in sorted({w for w in (1, 2, 3, 5, 8) if w < widest} | {widest})
    }


def _dollars_at(costs: Mapping[int, SampleCost], width: int, depth: int) -> float:
    """The expected cost of `width` of the samples, with at most `depth` replies each."""
    each = [
        cost.test + (cost.dollars[min(depth, len(cost.dollars)) - 1] if cost.dollars else 0.0)
        for cost in costs.values()
    ]
    return min(width, len(each)) * fmean(each)


def _edits_at(costs: Mapping[int, SampleCost], depth: int) -> dict[int, int]:
    """The last edit, from 0, of each sample after `depth` replies; -1 if there is none."""
    return {
        sample: (cost.edits[min(depth, len(cost.edits)) - 1] if cost.edits else 0) - 1
        for sample, cost in costs.items()
    }


_BUNDLE = "run.tar.zst"
_ISSUE = "issue.json"


@dataclass(frozen=True)
class FinishedRun:
    instance: str
    """The name of the run's folder, or of its bundle."""
    issue: str
    """Title and body; empty if the run did not keep them."""
    table: VoteTable
    """Has no tests if voting did not finish."""
    verdicts: Mapping[str, Verdict]
    revisions: Mapping[int, tuple[Patch, ...]]
    revision_passes: Mapping[int, tuple[tuple[bool, ...], ...]] | None = None
    """For each sample's edits, whether they pass each of the table's tests; None if they did not
    run (`Options.all_revisions`)."""
    context: Context | None = None
    """What the editing machines saw; None if the run did not keep it."""
    costs: Mapping[int, SampleCost] | None = None
    """By sample with an edit; None if the run did not keep what each reply used."""
    search_dollars: float = 0.0
    """What the search for the lines to change cost, its reward model included."""
    reward_dollars: float = 0.0
    base: Mapping[str, str] = field(default_factory=dict[str, str])
    """The unedited files that the edits change, as far as the run kept them."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.table.candidates


async def read_runs(folder: Path) -> list[FinishedRun]:
    """Every run in `folder`: `NAME.tar.zst`, `NAME/run.tar.zst`, or a folder `NAME/run`.

    Raises:
        BadData: no run was found, a bundle is broken, or another version of Capuchin saved one.
    """
    found: list[FinishedRun] = []
    for entry in await asyncio.to_thread(list_entries, folder):
        if run := await read_run(entry):
            found.append(run)
    if not found:
        raise BadData(f"{folder} holds no run: neither {_BUNDLE} nor a run's folder.")
    return found


async def read_run(entry: Path) -> FinishedRun | None:
    """The run in `entry`, one of the forms of `read_runs`; None if it is not a run.

    Raises:
        BadData: the bundle is broken, or another version of Capuchin saved the run.
    """
    documents = await asyncio.to_thread(read_documents, entry)
    if documents is None:
        return None
    try:
        return await _restore_run(entry.name.removesuffix(".tar.zst"), documents)
    except OtherFormat as error:
        raise BadData(f"{entry}: {error}") from None


def list_entries(folder: Path) -> list[Path]:
    """What lies in a folder of runs, in order. Raises BadData if it is not a folder."""
    if not folder.is_dir():
        raise BadData(f"{folder} is not a folder.")
    return sorted(folder.iterdir())


def read_documents(entry: Path) -> dict[str, bytes] | None:
    """The documents of a run in a form of `read_runs`, by name; None if it is not a run.

    Raises:
        BadData: the bundle is broken.
    """
    if entry.is_file():
        return _read_bundle(entry) if entry.name.endswith(".tar.zst") else None
    if (entry / _BUNDLE).is_file():
        return _read_bundle(entry / _BUNDLE)
    store = entry / "run"
    if not store.is_dir():
        return None
    files = (file for file in store.rglob("*.json") if not file.name.startswith("."))
    return {file.relative_to(store).as_posix(): file.read_bytes() for file in files}


def _read_bundle(path: Path) -> dict[str, bytes]:
    """A bundle's documents by store key, its `issue.json` and its manifest."""
    try:
        bundle = read_bundle(path)
    except BadBundle as problem:
        raise BadData(str(problem)) from None
    kept = {name: data for name, data in bundle.files.items() if name == _ISSUE}
    kept[MANIFEST] = json.dumps(dict(bundle.manifest)).encode()
    return {**kept, **bundle.documents}


async def _restore_run(name: str, documents: Mapping[str, bytes]) -> FinishedRun:
    store = BundleStore(documents)
    samples = sorted(
        int(key[8:-5])
        for key in documents
        if key.startswith("editing/") and key[8:-5].isdecimal() and key.endswith(".json")
    )
    candidates: list[Candidate] = []
    revisions: dict[int, tuple[Patch, ...]] = {}
    costs: dict[int, SampleCost | None] = {}
    setup = await store.load(EFFECTIVE_KEY, EffectiveSetup)
    for sample in samples:
        state = await store.load(f"editing/{sample}", EditingState)
        if state and (candidate := state.candidate(sample)):
            candidates.append(candidate)
            revisions[sample] = tuple(state.patches)
            test = await store.load(f"testing/{sample}", TestingState)
            costs[sample] = cost_of(test, state, setup.solver.price) if setup else None
    verdicts = {
        method: verdict
        for method in get_args(SelectionMethod)
        if (verdict := await store.load(f"verdict/{method}", Verdict))
    }
    issue = _read_issue(documents.get(_ISSUE))
    known = {sample: cost for sample, cost in costs.items() if cost is not None}
    table = await _replay_votes(candidates, store, verdicts)
    ledger = await store.load(LEDGER_KEY, Ledger)
    accounts = ledger.accounts if ledger else ()
    base = await store.load(BASE_KEY, BaseFiles)
    return FinishedRun(
        instance=name,
        issue=f"{issue.title}\n{issue.body}" if issue else "",
        table=table,
        revision_passes=await _replay_revisions(table, revisions, store),
        verdicts=verdicts,
        revisions=revisions,
        context=await load_context(store),
        search_dollars=sum(one.dollars for one in accounts if one.stage in SEARCH_STAGES),
        reward_dollars=sum(one.dollars for one in accounts if one.stage == ORM_STAGE),
        costs=known if len(known) == len(costs) else None,
        base=base.texts if base else {},
    )


def _read_issue(data: bytes | None) -> Issue | None:
    """None where it is missing or damaged; the format of a bundle covers its `issue.json`."""
    try:
        return None if data is None else Issue.model_validate_json(data)
    except ValidationError:
        return None


async def _replay_revisions(
    table: VoteTable, revisions: Mapping[int, Sequence[Patch]], store: BundleStore
) -> dict[int, tuple[tuple[bool, ...], ...]] | None:
    found: dict[int, tuple[tuple[bool, ...], ...]] = {}
    for sample, edits in earlier_revisions(table, revisions).items():
        try:
            voted = await vote(edits, open_replay(store, Options()), tests=table.tests)
        except NotInBundle:
            return None
        rows = {c.patch.diff: r for c, r in zip(voted.candidates, voted.runs, strict=True)}
        found[sample] = tuple(
            tuple(run.passed for run in rows.get(edit.patch.diff, ())) for edit in edits
        )
    return found if table.tests else None


async def _replay_votes(
    candidates: Sequence[Candidate], store: BundleStore, verdicts: Mapping[str, Verdict]
) -> VoteTable:
    try:
        table = await vote(candidates, open_replay(store, Options()))
    except NotInBundle:
        return VoteTable(
            candidates=tuple(candidates), tests=(), base=(), runs=tuple(() for _ in candidates)
        )
    flaky = next((verdict.flaky for verdict in verdicts.values()), ())
    return replace(table, flaky=flaky)
