"""Our open pull requests, kept until they end."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Final, cast

from bot.data.pull import BranchState, PullRecord
from bot.data.request import PullUpdate
from bot.data.run import RepoRef, Run
from bot.storage.client import RedisRecords, run_script
from pipeline.data.types import CommitSha
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record, encode_record
from sandbox.frozen import Frozen, replace

logger = logging.getLogger(__name__)


MAX_ANSWERED: Final = 500


class PullRecords(RedisRecords):
    """All records under one Redis prefix. Every method raises redis-py's errors.

    Renew the lease of a run on the pull request before `put` and `drop`.
    """

    async def get(self, repo: RepoRef, pull: int) -> PullRecord | None:
        asked = self._redis.hget(self._keys.pulls(repo.id), str(pull))
        found = await cast("Awaitable[bytes | None]", asked)
        return await self._read(repo.id, str(pull), found)

    async def list_all(self, repo: RepoRef) -> list[PullRecord]:
        key = self._keys.pulls(repo.id)
        found = await cast("Awaitable[dict[bytes, bytes]]", self._redis.hgetall(key))
        read = [await self._read(repo.id, pull.decode(), one) for pull, one in found.items()]
        return [record for record in read if record is not None]

    async def find_concerned(self, update: PullUpdate) -> list[PullRecord]:
        """Those that `update` is about."""
        if update.target == "pull":
            numbers = dict.fromkeys((update.number, *update.others))
            found = [await self.get(update.repo, number) for number in numbers]
            return [one for one in found if one is not None]
        return [
            one
            for one in await self.list_all(update.repo)
            if (
                update.target == "base"
                and one.base_branch in (update.branches or (one.base_branch,))
            )
            or (update.target == "issue" and one.issue == update.number)
            or (update.target == "branch" and one.branch in update.branches)
        ]

    async def put(self, record: PullRecord, *, due_in: float) -> None:
        """Keep the record, and have it looked after in `due_in` seconds at the latest."""
        key = self._keys.pulls(record.repo.id)
        kept = self._redis.hset(key, str(record.pull), encode_record(record).decode())
        await cast("Awaitable[int]", kept)
        await self._schedule(_member(record.repo.id, record.pull), due_in)

    async def change(
        self, repo: RepoRef, pull: int, fields: Mapping[str, object], *, due_in: float
    ) -> PullRecord | None:
        """Replace some fields of what is kept, and only them: two runs may write at a time.

        None when nothing is kept.
        """
        key = self._keys.pulls(repo.id)
        while True:
            found = await cast("Awaitable[bytes | None]", self._redis.hget(key, str(pull)))
            record = await self._read(repo.id, str(pull), found)
            if found is None or record is None:
                return None
            changed = replace(record, **fields)
            args = [str(pull), found, encode_record(changed)]
            if await run_script(self._redis, "replace_pull", [key], args):
                break
        await self._schedule(_member(repo.id, pull), due_in)
        return changed

    async def drop(self, repo: RepoRef, pull: int) -> None:
        """Forget a pull request that is closed, or whose repository is gone."""
        await self._drop(repo.id, str(pull))

    async def take_due(self, *, again_in: float) -> list[PullRecord]:
        """Pull requests due for a check; each becomes due again after `again_in` seconds."""
        time = (await self._redis.time())[0]
        members = cast(
            "list[bytes]",
            await self._redis.zrangebyscore(self._keys.pulls_due, "-inf", time, start=0, num=20),
        )
        due: list[PullRecord] = []
        for member in members:
            repo, _, pull = member.decode().partition("#")
            kept = self._redis.hget(self._keys.pulls(int(repo)), pull)
            record = await self._read(int(repo), pull, await cast("Awaitable[bytes | None]", kept))
            if record is None:
                await self._drop(int(repo), pull)
            else:
                await self._schedule(member.decode(), again_in)
                due.append(record)
        return due

    async def _read(self, repo: int, pull: str, found: bytes | None) -> PullRecord | None:
        """The record; one that cannot be read is dropped."""
        if found is None:
            return None
        try:
            return decode_record(PullRecord, found, f"Pull request {pull} of repository {repo}")
        except UnreadableRecord as error:
            logger.error("%s The pull request is not followed up.", error)  # noqa: TRY400 - the sentence says all
            await self._drop(repo, pull)
            return None

    async def _drop(self, repo: int, pull: str) -> None:
        await cast("Awaitable[int]", self._redis.hdel(self._keys.pulls(repo), pull))
        await self._redis.zrem(self._keys.pulls_due, _member(repo, pull))

    async def _schedule(self, member: str, seconds: float) -> None:
        time = (await self._redis.time())[0]
        await self._redis.zadd(self._keys.pulls_due, {member: time + seconds})


def _member(repo: int, pull: int | str) -> str:
    return f"{repo}#{pull}"


class BranchHistory(Frozen):
    """Oldest first. A state is noted before it is pushed, so the last may never have been."""

    states: tuple[BranchState, ...]

    @classmethod
    def from_run(cls, run: Run) -> "BranchHistory":
        """As `run` opened the pull request."""
        return cls(
            states=(BranchState(head=run.head_commit, candidate=run.candidate or 1, run=run.id),)
        )

    def state_at(self, head: CommitSha) -> BranchState | None:
        """The state that ends with this commit; None for a commit of somebody else."""
        return next((state for state in reversed(self.states) if state.head == head), None)
