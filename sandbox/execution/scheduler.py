"""Decides which execution runs next when a thread is free: the one that costs least then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from sandbox.base import Execution
from sandbox.execution.cancellation import Stoppable, wait_or_stop

Work = TypeVar("Work", bound=Stoppable[Execution])


class CostScheduler(Generic[Work]):
    """Submits one task for each execution to a shared pool; a task runs the cheapest execution."""

    def __init__(self, cost: Callable[[Work], int]) -> None:
        """`cost` is called in the pool's thread; of equal costs, the longest waiting goes first."""
        self._cost = cost
        self._guard = threading.Lock()
        self._waiting: list[tuple[Work, Future[Execution]]] = []

    async def run(self, pool: ThreadPoolExecutor, work: Work) -> Execution:
        """Raises as `work.run`; on cancellation stops `work` and waits for it."""
        answer: Future[Execution] = Future()
        with self._guard:
            self._waiting.append((work, answer))
        pool.submit(self._run_cheapest).add_done_callback(self._cancel_if_shut_down)
        return await wait_or_stop(work, answer)

    def _run_cheapest(self) -> None:
        with self._guard:
            # A cancelled execution leaves a task without work.
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
        except BaseException as error:  # noqa: BLE001 - raised in the waiting coroutine
            answer.set_exception(error)

    def _cancel_if_shut_down(self, slot: Future[None]) -> None:
        """Cancel all waiting executions when the pool is shut down: no thread will run them."""
        if slot.cancelled():
            with self._guard:
                waiting, self._waiting = self._waiting, []
            for _, answer in waiting:
                answer.cancel()
