from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.data.options import Options
from pipeline.data.types import Candidate, Issue, Patch, TestScript
from pipeline.selection.discriminate import DiscriminatingMachine
from pipeline.selection.finalists import Finalists
from pipeline.selection.voting import vote
from pipeline.store import DirStore
from tests.support.fakes import ScriptedModel
from tests.support.sandboxes import TableSandbox

SEPARATES = "This is script 2, which some of the candidates pass and others do not."


@pytest.mark.parametrize(("codes", "first"), [({}, "This is script 1:"), ({"B": 2}, SEPARATES)])
async def test_the_script_that_separates_the_finalists_is_shown(
    tmp_path: Path, codes: dict[str, int], first: str
) -> None:
    made = [(0, "A", "one"), (1, "B", "two")]
    candidates = [
        Candidate(sample=sample, patch=Patch(diff=diff), test=TestScript(text=test))
        for sample, diff, test in made
    ]
    ends = {(test, diff): 0 for test in ("one", "two") for diff in "AB"}
    ends |= {("two", diff): code for diff, code in codes.items()}
    sandbox = TableSandbox(ends)
    table = await vote(candidates, sandbox=sandbox, store=DirStore(tmp_path), seconds=1)
    machine = DiscriminatingMachine(
        ScriptedModel({}),
        sandbox,
        Options(),
        issue=Issue(repository="a/b", title="", body=""),
        finalists=Finalists(table=table, indices=(0, 1), letters=("A", "B")),
    )
    assert first in machine.start().pending
