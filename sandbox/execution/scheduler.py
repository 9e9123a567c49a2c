"""Which of the executions that wait for a thread goes next: the one that costs least then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from sandbox.base import Execution
from sandbox.execution.cancellation import Stoppable, wait_or_stop

Work = TypeVar("Work", bound=Stoppable[Execution])


class CostScheduler(Generic[Work]):
    """Each execution takes one turn of a pool that others share, but not always its own."""

    def __init__(self, cost: Callable[[Work], int]) -> None:
        """`cost` is asked, in the thread whose turn it is, what would run cheapest now; of equals
        the one that has waited longest goes."""
        self._cost = cost
        self._guard = threading.Lock()
        self._waiting: list[tuple[Work, Future[Execution]]] = []

    async def run(self, pool: ThreadPoolExecutor, work: Work) -> Execution:
        """Raises as `work.run`; on cancellation `work` is stopped and waited for."""
        answer: Future[Execution] = Future()
        with self._guard:
            self._waiting.append((work, answer))
        pool.submit(self._run_cheapest).add_done_callback(self._cancel_if_shut_down)
        return await wait_or_stop(work, answer)

    def _run_cheapest(self) -> None:
        with self._guard:
            # Who was cancelled leaves a turn without use.
            self._waiting = [pair for pair in self._waiting if not pair[1].cancelled()]
            if not self._waiting:
                return
            pair = min(self._waiting, key=lambda pair: self._cost(pair[0]))
            self._waiting.remove(pair)
        work, answer = pair
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(work.run())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            answer.set_exception(error)

    def _cancel_if_shut_down(self, slot: Future[None]) -> None:
        """A pool that is shut down gives no more turns: nobody may wait for one."""
        if slot.cancelled():
            with self._guard:
                waiting, self._waiting = self._waiting, []
            for _, answer in waiting:
                answer.cancel()
