"""Executes the earlier revisions of every edit too, for research on selection."""

from __future__ import annotations

from pipeline.generation.editing import EditingState
from pipeline.resources import Resources
from pipeline.selection.voting import earlier_revisions, vote
from pipeline.types import Patch, VoteTable


async def vote_on_revisions(table: VoteTable, resources: Resources) -> None:
    """Run every test of `table` on every earlier revision of its edits.

    The results stay in the store; the choice does not use them. See `Options.all_revisions`.
    """
    revisions: dict[int, list[Patch]] = {}
    for candidate in table.candidates:
        state = await resources.store.load(f"editing/{candidate.sample}", EditingState)
        revisions[candidate.sample] = state.patches if state else []
    edits = [edit for edits in earlier_revisions(table, revisions).values() for edit in edits]
    await resources.report(
        "votes", f"running every test on earlier versions of the edits ({len(edits)})"
    )
    await vote(
        edits,
        sandbox=resources.sandbox,
        store=resources.store,
        seconds=resources.options.execution_seconds,
        tests=table.tests,
    )
