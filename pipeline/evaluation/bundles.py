"""Reads what finished runs left: run folders and `run.tar.zst` bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pipeline.bundle.read import BadBundle, read_bundle
from pipeline.bundle.replay import BundleStore, NotInBundle, UnavailableSandbox
from pipeline.evaluation.dataset import BadData
from pipeline.generation.editing import EditingState
from pipeline.options import SelectionMethod
from pipeline.selection.verdict import Verdict
from pipeline.selection.voting import earlier_revisions, vote
from pipeline.types import Candidate, Context, Issue, Patch, VoteTable, replace

_BUNDLE = "run.tar.zst"
_ISSUE = "issue.json"


@dataclass(frozen=True)
class FinishedRun:
    """One run on one instance."""

    instance: str
    """The name of the run's folder, or of its bundle."""
    issue: str
    """Title and body, empty where they were not kept."""
    table: VoteTable
    """Without tests where the votes were not counted to the end."""
    verdicts: Mapping[str, Verdict]
    """What was chosen in the run, by the way of choosing."""
    revisions: Mapping[int, tuple[Patch, ...]]
    """Of each sample, its edits one after the other."""
    revision_passes: Mapping[int, tuple[tuple[bool, ...], ...]] | None = None
    """Of each sample and edit of it, whether it passes each of the table's tests; None where that
    was not run (`Options.all_revisions`)."""
    context_files: frozenset[str] | None = None
    """The files that the editing machines were shown; None where that was not kept."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.table.candidates


async def read_runs(folder: Path) -> list[FinishedRun]:
    """Every run in `folder`: `NAME.tar.zst`, `NAME/run.tar.zst`, or a folder `NAME/run`.

    Raises:
        BadData: there is no run, or a bundle is broken.
    """
    found = [
        await _read_run(entry.name.removesuffix(".tar.zst"), documents)
        for entry in await asyncio.to_thread(_entries, folder)
        if (documents := await asyncio.to_thread(_read_documents, entry)) is not None
    ]
    if not found:
        raise BadData(f"{folder} holds no run: neither {_BUNDLE} nor a run's folder.")
    return found


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadData(f"{folder} is no folder.")
    return sorted(folder.iterdir())


def _read_documents(entry: Path) -> dict[str, bytes] | None:
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
    """The documents of a bundle by the store's names, and its `issue.json`."""
    try:
        bundle = read_bundle(path)
    except BadBundle as problem:
        raise BadData(str(problem)) from None
    kept = {name: data for name, data in bundle.files.items() if name == _ISSUE}
    return {**kept, **bundle.documents}


async def _read_run(name: str, documents: Mapping[str, bytes]) -> FinishedRun:
    store = BundleStore(documents)
    samples = sorted(
        int(key[8:-5])
        for key in documents
        if key.startswith("editing/") and key[8:-5].isdecimal() and key.endswith(".json")
    )
    candidates: list[Candidate] = []
    revisions: dict[int, tuple[Patch, ...]] = {}
    for sample in samples:
        state = await store.load(f"editing/{sample}", EditingState)
        if state and (candidate := state.candidate(sample)):
            candidates.append(candidate)
            revisions[sample] = tuple(state.patches)
    verdicts = {
        method: verdict
        for method in get_args(SelectionMethod)
        if (verdict := await store.load(f"verdict/{method}", Verdict))
    }
    issue = await store.load("issue", Issue)
    context = await store.load("context/files", Context)
    table = await _replay_votes(candidates, store, verdicts)
    return FinishedRun(
        instance=name,
        issue=f"{issue.title}\n{issue.body}" if issue else "",
        table=table,
        revision_passes=await _replay_revisions(table, revisions, store),
        verdicts=verdicts,
        revisions=revisions,
        context_files=frozenset(file.path for file in context.files) if context else None,
    )


async def _replay_revisions(
    table: VoteTable, revisions: Mapping[int, Sequence[Patch]], store: BundleStore
) -> dict[int, tuple[tuple[bool, ...], ...]] | None:
    found: dict[int, tuple[tuple[bool, ...], ...]] = {}
    for sample, edits in earlier_revisions(table, revisions).items():
        try:
            voted = await vote(
                edits, sandbox=UnavailableSandbox(), store=store, seconds=1, tests=table.tests
            )
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
        table = await vote(candidates, sandbox=UnavailableSandbox(), store=store, seconds=1)
    except NotInBundle:
        return VoteTable(
            candidates=tuple(candidates), tests=(), base=(), runs=tuple(() for _ in candidates)
        )
    flaky = next((verdict.flaky for verdict in verdicts.values()), ())
    return replace(table, flaky=flaky)
