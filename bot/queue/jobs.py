"""The queue of jobs: "begin what waits" and the requests of people. The only importer of arq.

A job that asks to begin a run may be lost or repeated: leases and the sweep decide what is worked
on. A request is kept by arq until it is carried out; a worker that dies leaves it to another.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from arq import ArqRedis, Retry, Worker, func
from arq.constants import job_key_prefix
from structlog.contextvars import bound_contextvars

from bot.data.request import QueuedKind, RunRequest, StartOutcome, StartResult
from bot.data.run import Lane, Run, RunId, StopReason, now
from bot.errors import TryLater
from bot.storage.client import UNREACHABLE, CancellableRedis, describe_redis_error
from bot.storage.keys import DELIVERY_SECONDS
from bot.storage.requests import QueuedRequest
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record, encode_record
from sandbox.frozen import replace

CLAIM_SECONDS: Final = 60.0
"""Until a job whose worker died is another's."""
HOURS: Final = 12 * 3600.0  # longer than any job: what takes longer than its claim is repeated
MAX_OFFERS: Final = 10
"""How often a run is offered to workers that may be full; each then finds it by itself."""
OFFER_SECONDS: Final = 0.5
MAX_TRIES: Final = 3
"""Of a request that fails through a bug."""

logger = logging.getLogger(__name__)


class _ArqRedis(CancellableRedis, ArqRedis):
    """arq's client; its worker watches keys, and is cancelled at any moment."""


def _dump(job: dict[str, Any]) -> bytes:
    return json.dumps(job, default=str).encode()


class RunQueue:
    """Runs, and the jobs that move them. Every method raises redis-py's errors."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.arq = _ArqRedis(
            pool_or_conn=storage.connection_pool,
            # arq's default is pickle: a writer to Redis would run code here.
            job_serializer=_dump,
            job_deserializer=json.loads,
            default_queue_name=storage.queue_name,
        )

    @property
    def runs(self) -> Runs:
        return self.storage.runs

    async def send(self, run_id: RunId, starts: int, lane: Lane = Lane.ISSUES) -> None:
        """Ask any worker to begin a run that has been begun `starts` times; once for each start."""
        job_id = f"{self.storage.prefix}{run_id}#{starts}"
        await self.arq.enqueue_job("begin", lane, _job_id=job_id)

    async def send_for(self, run: Run) -> None:
        await self.send(run.id, run.starts, run.mode.lane)

    async def put(self, *requests: QueuedKind) -> bool:
        """Keep requests of one pace until they are carried out; False when all were put in before.

        They are due in their order, and before what the first of them leads to.
        """
        names = {self.storage.name_request_job(one.id): one for one in requests}
        new = [name for name in names if not await self.arq.exists(job_key_prefix + name)]
        if not new:
            return False
        turns = await self.storage.requests.find_turns(requests[0], len(new))
        jobs = [
            await self.arq.enqueue_job(
                "carry_out",
                encode_record(QueuedRequest(request=names[name])).decode(),
                _job_id=name,
                _defer_until=due,
                _expires=due - now() + timedelta(seconds=DELIVERY_SECONDS),
            )
            for name, due in zip(new, turns, strict=True)
        ]
        return any(jobs)

    async def count_requests(self) -> int:
        """How many are not carried out yet."""
        jobs: list[bytes] = await self.arq.zrange(self.storage.queue_name, 0, -1)
        prefix = self.storage.name_request_job("").encode()
        return sum(job.startswith(prefix) for job in jobs)


class RetryLater(NamedTuple):
    """A request that is to come up again, as `item`."""

    item: QueuedRequest
    seconds: float


ExecuteRequest = Callable[[QueuedRequest, RunQueue], Awaitable[RetryLater | None]]
"""Does what a request says, find-or-create: it may have been done before.

Raises:
    TryLater: GitHub does not answer; it will be called again.
"""
BeginRuns = Callable[[Lane], Awaitable[bool]]
"""Begins what waits in a lane; False if this worker is full."""


class JobWorker:
    """Takes jobs, of which no one waits for another."""

    def __init__(
        self,
        queue: RunQueue,
        begin: BeginRuns,
        execute: ExecuteRequest | None,
        patience_seconds: float,
    ) -> None:
        """`execute` carries out requests; None: there are none."""
        self._queue = queue
        self._begin_runs = begin
        self._execute = execute
        self._patience = timedelta(seconds=patience_seconds)
        functions = [func(self._begin, name="begin", max_tries=MAX_OFFERS, keep_result=0)]
        if execute is not None:
            # Its result, which is nothing, keeps it from being put in again.
            endless, kept = 10**9, DELIVERY_SECONDS
            functions.append(
                func(self._carry_out, name="carry_out", max_tries=endless, keep_result=kept)
            )
        self.arq = Worker(
            functions,
            queue_name=queue.storage.queue_name,
            redis_pool=queue.arq,
            handle_signals=False,
            job_timeout=HOURS,
            job_serializer=_dump,
            job_deserializer=json.loads,
        )
        self.arq.in_progress_timeout_s = CLAIM_SECONDS

    async def run(self) -> None:
        """Work until cancelled; what is under way is cancelled too, and comes up again.

        Raises redis-py's errors, and is then of no further use.
        """
        try:
            await self.arq.main()
        finally:
            left = [*self.arq.tasks.values(), *self.arq.job_tasks.values()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
                for task in left:
                    if not task.cancelled():
                        task.exception()

    async def _begin(self, ctx: dict[Any, Any], lane: str) -> None:
        if not await self._begin_runs(Lane(lane)) and ctx["job_try"] < MAX_OFFERS:
            raise Retry(OFFER_SECONDS)

    async def _carry_out(self, ctx: dict[Any, Any], record: str) -> None:
        name, asked_at = f"Command {ctx['job_id']}", ctx["enqueue_time"]
        later: float | None = 5.0
        try:
            item = decode_record(QueuedRequest, record.encode(), name)
        except UnreadableRecord as error:
            logger.error("%s Another worker may read it.", error)  # noqa: TRY400 - the sentence says all
        else:
            later = await self._try_execute(item, ctx["job_try"])
        if later is None:
            return
        endless = f"{self._queue.storage.name_request_job('set-up-')}"
        if now() - asked_at < self._patience or str(ctx["job_id"]).startswith(endless):
            raise Retry(later)
        logger.error("%s: gave up after a long time", name)

    async def _try_execute(self, item: QueuedRequest, tries: int) -> float | None:
        """In how many seconds the request is to come up again; None if it is done with."""
        request = item.request
        by = request.asked_by if isinstance(request, RunRequest) else getattr(request, "by", "")
        with bound_contextvars(delivery=request.delivery, repository=request.repo.full_name, by=by):
            try:
                return await self._call(item)
            except TryLater as error:
                logger.warning("Command %s: %s: %s", request.id, error, error.__cause__)
                return error.after
            except UNREACHABLE as error:
                logger.warning("Command %s: Redis: %s", request.id, describe_redis_error(error))
                return OFFER_SECONDS
            except UnreadableRecord as error:
                logger.error("Command %s: %s", request.id, error)  # noqa: TRY400 - the sentence says all
                return None
            except Exception:  # the outermost edge of a command
                logger.exception("Command %s: a bug", request.id)
                return None if tries >= MAX_TRIES else 5.0

    async def _call(self, item: QueuedRequest) -> float | None:
        assert self._execute is not None
        requests = self._queue.storage.requests
        is_waiting = await requests.is_waiting(item.request)
        later = await self._execute(replace(item, is_waiting=is_waiting), self._queue)
        if later is None:
            return None
        if later.item.is_waiting and not is_waiting:
            await requests.mark_waiting(item.request)
        return later.seconds


async def request_run(request: RunRequest, queue: RunQueue) -> StartResult:
    """Begin the run and tell a worker, or join the one that the issue has.

    Where that one does not answer the request (it plans only, or is being stopped), the request
    is queued until it ends.
    Raises redis-py's errors; asked again it does what is left to do.
    """
    runs = queue.runs
    latest = await runs.get_latest(request.repo, request.issue)
    if latest is None or latest.status.final or await _can_join(latest, request, runs):
        asked = await runs.start(request, latest)
        if asked.outcome is StartOutcome.CREATED:
            await queue.send(asked.run_id, 0)
        return asked
    if await runs.is_handled(request):
        return StartResult(StartOutcome.REPEATED, latest.id)
    await queue.put(request)
    await runs.mark_handled(request, latest.id)
    return StartResult(StartOutcome.RUNNING, latest.id)


async def _can_join(under_way: Run, request: RunRequest, runs: Runs) -> bool:
    """Whether the run does what the request asks for, and was not stopped before the request."""
    if under_way.mode is not request.mode:
        return False
    stop = under_way.stop or await runs.get_stop(under_way.id)
    if stop is None or stop.why is not StopReason.COMMAND or stop.at is None or request.at is None:
        return True
    return request.at <= stop.at
