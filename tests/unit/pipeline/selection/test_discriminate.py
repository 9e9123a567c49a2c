"""Scripts that tell finalists apart."""

from pathlib import Path

import pytest

from pipeline.data.types import Candidate, Issue, Patch, TestScript
from pipeline.selection.discriminate import DiscriminatingMachine
from pipeline.selection.finalists import Finalists
from pipeline.selection.voting import vote
from tests.support.fakes import ScriptedModel
from tests.support.sandboxes import TableSandbox, bare_workspace

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
    workspace = bare_workspace(sandbox, tmp_path)
    table = await vote(candidates, workspace)
    machine = DiscriminatingMachine(
        workspace,
        ScriptedModel({}),
        issue=Issue(repository="a/b", title="", body=""),
        finalists=Finalists(table=table, indices=(0, 1), letters=("A", "B")),
        ours=True,
    )
    assert first in machine.start().pending
