"""The record of each run: at most one active run an issue, none lost."""

import logging
import zlib
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from uuid import uuid4

from pydantic_core import from_json

from bot.data.request import NO_LABEL_EVENT, LabelEvent, RunRequest, StartOutcome, StartResult
from bot.data.run import IssueVersion, Login, RepoRef, Run, RunId, RunStatus, Stop, StopReason, now
from bot.storage.client import RedisRecords, read_or_skip, run_script
from bot.storage.keys import CHECKPOINT_SECONDS, DAY, DELIVERY_SECONDS, RECORD_SECONDS
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record, encode_record
from sandbox.frozen import replace

logger = logging.getLogger(__name__)

VERSION_KEY: Final = "version"
"""The checkpoint that holds the `IssueVersion` that was asked about."""


class Runs(RedisRecords):
    """All runs under one Redis prefix. Every method raises redis-py's errors."""

    async def create(
        self,
        repo: RepoRef,
        issue: int,
        *,
        asked_by: Login,
        delivery: str,
        version: IssueVersion | None = None,
        join: bool = True,
        **fields: Any,
    ) -> StartResult:
        """Begin a run of an issue, unless the issue has one or `delivery` was answered before.

        `version` is the issue as the person who asked has read it; `fields` are other fields.
        With `join` the run that the issue has is the answer for good; without, `delivery` may ask
        again. Asking again after the bot asked back confirms the run.

        One atomic step: after a crash at any point either everything of it is there or nothing.
        """
        run = Run(
            id=RunId(uuid4().hex),
            repo=repo,
            issue=issue,
            asked_by=asked_by,
            delivery=delivery,
            **fields,
        )
        before = await self.get_latest(repo, issue)
        return await self._create(run, before, version=version, join=join)

    async def start(self, request: RunRequest, before: Run | None) -> StartResult:
        """Begin the run that a label or an assignment asks for, or join the issue's run, as
        `create` does. `before` is the issue's latest run.

        A label is answered once, even if both a webhook and the sweep report it.
        """
        run = Run(
            id=RunId(uuid4().hex),
            repo=request.repo,
            issue=request.issue,
            asked_by=request.asked_by,
            delivery=request.delivery,
            mode=request.mode,
            label=request.label,
            asked_at=request.at,
        )
        event = LabelEvent.from_request(request)
        return await self._create(run, before, version=request.version, label_event=event)

    async def _create(
        self,
        run: Run,
        before: Run | None,
        *,
        version: IssueVersion | None,
        join: bool = True,
        label_event: LabelEvent | None = None,
    ) -> StartResult:
        repo, issue, delivery = run.repo, run.issue, run.delivery
        if not run.published_run:
            run = replace(run, published_run=latest_published(before))
        if before is not None and _awaits_confirmation(before):
            run = replace(run, confirmed=True)
        keys = self._keys
        outcome, run_id = await run_script(
            self._redis,
            "create_run",
            [
                keys.delivery(delivery),
                keys.issue(repo, issue),
                keys.run(run.id),
                keys.active,
                keys.issue(repo, issue, "latest-run"),
                keys.checkpoint(run.id, VERSION_KEY),
                keys.issue(repo, issue, "label-events"),
                keys.issue(repo, issue, "runs"),
                keys.issue(repo, issue, "latest-join"),
            ],
            [
                run.id,
                encode_record(run),
                DELIVERY_SECONDS,
                RECORD_SECONDS,
                b"" if version is None else zlib.compress(encode_record(version)),
                CHECKPOINT_SECONDS,
                int(join),
                *(label_event.script_args if label_event else NO_LABEL_EVENT),
            ],
        )
        return StartResult(StartOutcome(outcome.decode()), RunId(run_id.decode()))

    async def mark_handled(self, request: RunRequest, run_id: RunId) -> None:
        """Remember that the label is dealt with, for each later webhook and sweep."""
        await self._redis.set(self._keys.delivery(request.delivery), run_id, ex=DELIVERY_SECONDS)
        label_event = LabelEvent.from_request(request)
        key = self._keys.issue(request.repo, request.issue, "label-events")
        if label_event is not None:
            kept = self._redis.hset(key, label_event.hash_field, str(label_event.until))
            await cast(Awaitable[int], kept)
            await self._redis.expire(key, RECORD_SECONDS)

    async def is_handled(self, request: RunRequest) -> bool:
        """Whether that label is dealt with, by this delivery or another."""
        if await self._redis.exists(self._keys.delivery(request.delivery)):
            return True
        label_event = LabelEvent.from_request(request)
        key = self._keys.issue(request.repo, request.issue, "label-events")
        if label_event is None:
            return False
        fields = list(label_event.covering_fields)
        found = await cast(Awaitable[list[bytes | None]], self._redis.hmget(key, fields))
        return any(until is not None and label_event.at <= int(until) for until in found)

    async def request_stop(self, repo: RepoRef, issue: int, stop: Stop) -> RunId | None:
        """Ask the worker of the issue's active run to stop it; its id, None without one."""
        keys = self._keys
        found: bytes | None = b"another run"
        while found == b"another run":
            run_id = RunId((await self._redis.get(keys.issue(repo, issue)) or b"").decode())
            found = await run_script(
                self._redis,
                "request_stop",
                [
                    keys.issue(repo, issue),
                    keys.active,
                    keys.issue(repo, issue, "stop-time"),
                    keys.stopping,
                    keys.run(run_id, "stop"),
                ],
                [
                    run_id,
                    encode_record(stop),
                    RECORD_SECONDS,
                    repr(stop.at.timestamp()) if stop.at else "",
                    DAY,
                    int(stop.why is StopReason.COMMAND),
                ],
            )
        return None if found is None else RunId(found.decode())

    async def get_last_request_time(self, run: Run) -> datetime | None:
        """When the run was asked for, or its latest label that joined it was put on."""
        joined = await self._redis.get(self._keys.issue(run.repo, run.issue, "latest-join"))
        if joined is None:
            return run.asked_at
        at = datetime.fromtimestamp(int(joined), UTC)
        return at if run.asked_at is None else max(at, run.asked_at)

    async def get_stop(self, run_id: RunId) -> Stop | None:
        wanted = await self._redis.get(self._keys.run(run_id, "stop"))
        return read_or_skip(Stop, wanted, f"The stop of run {run_id}")

    async def drop_stop(self, run_id: RunId, stop: Stop) -> None:
        """Forget a hint that turned out to be wrong."""
        await run_script(
            self._redis, "delete_if_equal", [self._keys.run(run_id, "stop")], [encode_record(stop)]
        )

    async def list_stopping(self) -> list[RunId]:
        keys = self._keys
        members = await cast(
            Awaitable[set[bytes]], self._redis.sinter([keys.stopping, keys.active])
        )
        return [RunId(member.decode()) for member in members]

    async def forget_stopping(self, run_id: RunId) -> None:
        await cast(Awaitable[int], self._redis.srem(self._keys.stopping, run_id))

    async def get_stop_time(self, repo: RepoRef, issue: int) -> datetime | None:
        """When people last wanted the issue's work to stop, by GitHub's clock, if known."""
        at = await self._redis.get(self._keys.issue(repo, issue, "stop-time"))
        return None if at is None else datetime.fromtimestamp(float(at), UTC)

    async def get(self, run_id: RunId) -> Run | None:
        """The record, or None when there is none any longer.

        Raises:
            UnreadableRecord: it is damaged, or another version saved it; it is left as it is.
        """
        record = await self._redis.get(self._keys.run(run_id))
        return None if record is None else decode_record(Run, record, f"Run {run_id}")

    async def get_current(self, repo: RepoRef, issue: int) -> Run | None:
        """The issue's active run."""
        run = await self.get_latest(repo, issue)
        return None if run is None or run.status.final else run

    async def get_readable(self, run_id: RunId) -> Run | None:
        """As `get`, but None for a record that cannot be read either."""
        try:
            return await self.get(run_id)
        except UnreadableRecord:  # the sweep logs and ends it
            return None

    async def get_latest(self, repo: RepoRef, issue: int) -> Run | None:
        """The issue's latest run of the last 30 days, active or finished, as `get_readable`."""
        run_id: bytes | None = await self._redis.get(self._keys.issue(repo, issue, "latest-run"))
        return None if run_id is None else await self.get_readable(RunId(run_id.decode()))

    async def list_active(self) -> list[RunId]:
        members = await cast(Awaitable[set[bytes]], self._redis.smembers(self._keys.active))
        return [RunId(member.decode()) for member in members]

    async def bring_forward(self, run: Run, moment: datetime) -> None:
        """Let a run that nobody has begun be due at `moment`, unless it is due earlier."""
        if run.not_before is None or run.not_before <= moment:
            return
        keys = [self._keys.run(run.id), self._keys.run(run.id, "lease")]
        sooner = replace(run, not_before=moment)
        args = [encode_record(run), encode_record(sooner), RECORD_SECONDS]
        await run_script(self._redis, "bring_forward", keys, args)

    async def list_durations(self) -> list[float]:
        """How many seconds the latest finished runs took, the latest first."""
        taken = await cast(
            "Awaitable[list[bytes]]", self._redis.lrange(self._keys.durations, 0, -1)
        )
        return [float(one) for one in taken]

    async def count_checkpoints(self, run_id: RunId) -> int:
        return int(await self._redis.get(self._keys.run(run_id, "checkpoints")) or 0)


_REQUESTED: Final = frozenset({
    "id", "repo", "issue", "asked_by", "delivery", "mode", "pulls", "candidate", "anyway",
    "published_run", "label", "asked_at", "confirmed", "created_at", "comment_id", "status",
})  # fmt: skip
"""The fields of a run that say what was asked for, where to answer, and whether it has ended."""


def begin_anew(record: bytes) -> Run | None:
    """The run in a record that cannot be read, as before its first start; one that has ended stays
    ended. None if what was asked for is unknown."""
    try:
        saved = from_json(record)["record"]
        run = Run.model_validate({name: saved[name] for name in _REQUESTED & saved.keys()})
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return run if run.status.final else replace(run, status=RunStatus.QUEUED, begun_anew=True)


def latest_published(run: Run | None) -> RunId:
    """The id of the issue's latest run whose edits `use` takes, up to `run`; empty for none."""
    return run.edits_run if run else RunId("")


def _awaits_confirmation(run: Run) -> bool:
    """Whether asking now is an answer to what the run asked back."""
    if run.status is not RunStatus.NEEDS_CONFIRMATION or run.finished_at is None:
        return False
    return now() - run.finished_at < timedelta(days=7)
