"""Runs with right and wrong edits, as SWE-Reasoner's strategies are scored on."""

from pipeline.data.code_places import Context, SearchRecord
from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.lab.bundles import FinishedRun, SampleCost
from pipeline.lab.strategies import StrategyCase
from pipeline.selection.scoring.standings import build_standings
from sandbox.program import Execution
from tests.support.data.evaluation import RIGHT, WRONG

FAILS, PASSES = (Execution(exit_code=code, output="", seconds=0.1) for code in (2, 0))
TEST = TestScript(text="right?\n")


def strategy_case(*right: bool, width: int = 0, reward: float | None = None) -> StrategyCase:
    """Wrong edits pass no test; all edits break nothing; `reward` goes to right ones."""
    diffs = [
        (RIGHT if good else WRONG).replace("\n+", f"\n+v{n} = ", 1) for n, good in enumerate(right)
    ]
    table = VoteTable(
        candidates=tuple(
            Candidate(sample=n, patch=Patch(diff=diff), test=TEST) for n, diff in enumerate(diffs)
        ),
        tests=(TEST,),
        base=(FAILS,),
        runs=tuple((PASSES if good or reward else FAILS,) for good in right),
    )
    search = SearchRecord(width=width) if width else None
    run = FinishedRun(
        "one",
        "",
        table,
        {},
        {},
        context=Context(files=(), search=search),
        costs={n: SampleCost(0.1, (0.4,), (1,)) for n in range(len(right))},
        search_dollars=2.0 if width else 0.0,
    )
    rewards = {n: reward if good else -reward for n, good in enumerate(right)} if reward else {}
    broken = dict.fromkeys(range(len(right)), ())
    standings = build_standings(table, issue="").with_results(broken=broken, rewards=rewards)
    return run, standings, right
