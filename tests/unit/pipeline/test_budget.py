import asyncio

import pytest

from pipeline.budget import Budget, CostBounds, Grant
from pipeline.concurrency import gather_all
from pipeline.run_errors import BudgetSpent


class Poor:
    """A purse of a day on which nothing is left."""

    async def reserve(self, bounds: CostBounds) -> Grant:
        raise BudgetSpent(5, 5, "installation")

    async def settle(self, grant: Grant, dollars: float) -> None:
        raise AssertionError("nothing was set aside")


async def test_calls_in_flight_are_set_aside_and_the_next_one_waits_for_what_they_give_back() -> (
    None
):
    budget = Budget(1.0)
    order: list[str] = []

    async def call(name: str, cost: float) -> None:
        async with budget.reserve(CostBounds(0.6, 0.6)) as reservation:
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")
            await reservation.settle(cost)

    await gather_all([call("first", 0.2), call("second", 0.2)])
    assert order == ["first begins", "first ends", "second begins", "second ends"]
    assert budget.spent == pytest.approx(0.4)


async def test_a_call_gets_what_is_left_if_that_is_enough_for_most_replies() -> None:
    budget = Budget(1.0)
    async with (
        budget.reserve(CostBounds(0.2, 0.7)) as first,
        budget.reserve(CostBounds(0.2, 0.7)) as second,
    ):
        assert (first.dollars, second.dollars) == (pytest.approx(0.7), pytest.approx(0.3))


async def test_waiting_ends_when_the_calls_in_flight_leave_too_little() -> None:
    budget = Budget(1.0)

    async def dear() -> str:
        async with budget.reserve(CostBounds(0.9, 0.9)) as reservation:
            await asyncio.sleep(0)
            await reservation.settle(0.9)
        return "done"

    async def refused() -> str:
        with pytest.raises(BudgetSpent, match=r"\$0.90 of \$1.00"):
            async with budget.reserve(CostBounds(0.5, 0.5)):
                pass
        return "refused"

    assert await gather_all([dear(), refused()]) == ["done", "refused"]


async def test_a_call_that_was_never_settled_gives_everything_back() -> None:
    budget = Budget(1.0)
    with pytest.raises(ZeroDivisionError):
        async with budget.reserve(CostBounds(1.0, 1.0)):
            raise ZeroDivisionError
    async with budget.reserve(CostBounds(1.0, 1.0)) as reservation:
        assert reservation.dollars == 1.0


async def test_a_purse_that_is_empty_leaves_the_runs_own_money_as_it_was() -> None:
    budget = Budget(1.0, shared=Poor())
    for _ in range(2):
        with pytest.raises(BudgetSpent) as caught:
            async with budget.reserve(CostBounds(0.9, 0.9)):
                pass
        assert caught.value.of == "installation"
    assert budget.spent == 0


async def test_nothing_is_free_once_the_ceiling_is_reached() -> None:
    budget = Budget(1.0, spent=1.0)
    with pytest.raises(BudgetSpent):
        async with budget.reserve(CostBounds(0.0, 0.0)):
            pass
