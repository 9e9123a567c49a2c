"""What each stage of a run cost, in the form of CodeMonkeys' Table 1."""

import pytest

from pipeline.data.types import Account, Usage
from pipeline.lab.solving import cost_cells, cost_table
from pipeline.models.base import Price

SONNET = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
MILLION = 1_000_000


def account(stage: str, model: str = "sonnet", **tokens: int) -> Account:
    usage = Usage(**tokens)
    return Account(stage=stage, model=model, calls=1, usage=usage, dollars=SONNET.of(usage))


ACCOUNTS = (
    account("relevance", "local", input=9 * MILLION),
    account("editing", input=MILLION, output=MILLION, cache_read=8 * MILLION, cache_write=MILLION),
    account("testing", output=2 * MILLION),
    account("approaches", input=MILLION),
    account("invented", output=MILLION),
)


def test_stages_stand_in_the_papers_order_with_the_total_last() -> None:
    lines = cost_table(ACCOUNTS, {"sonnet": SONNET})
    assert [line.stage for line in lines] == [
        "Relevance",
        "Gen. tests",
        "Gen. edits",
        "Other",
        "Total",
    ]


def test_dollars_are_by_kind_and_add_up() -> None:
    lines = {line.stage: line for line in cost_table(ACCOUNTS, {"sonnet": SONNET})}
    edits = lines["Gen. edits"]
    assert (edits.calls, edits.input, edits.output) == (2, 6, 15)
    assert (edits.cache_read, edits.cache_write) == pytest.approx((2.4, 3.75))
    assert lines["Relevance"].dollars == 0, "a model of one's own costs nothing"
    assert lines["Total"].dollars == pytest.approx(sum(a.dollars for a in ACCOUNTS[1:]))
    assert lines["Total"].usage == sum((a.usage for a in ACCOUNTS), Usage())


def test_a_run_without_any_call_has_an_empty_total() -> None:
    (total,) = cost_table((), {})
    assert (total.stage, total.calls, total.dollars) == ("Total", 0, 0)


def test_a_row_holds_dollars_by_kind_and_the_share_of_the_total() -> None:
    *_, total = cost_table(ACCOUNTS, {"sonnet": SONNET})
    stage, calls, *dollars, share = cost_cells(total, total.dollars)
    assert (stage, calls, share) == ("Total", 5, "100.0")
    assert float(dollars[-1]) == pytest.approx(total.dollars, abs=0.01)
