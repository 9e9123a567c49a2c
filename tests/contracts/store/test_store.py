"""What every Store promises, asked of both."""

import json
import random
import zlib
from pathlib import Path

import pytest
from pydantic import BaseModel
from redis.asyncio import Redis

from bot.data.run import RunId
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import Keys
from bot.storage.storage import Storage
from pipeline.concurrency import gather_all
from pipeline.run_errors import OtherFormat
from pipeline.store import FORMAT, SHARED, DirStore, SharingStore, Store


class Note(BaseModel):
    text: str
    numbers: tuple[int, ...] = ()


class Newer(BaseModel):
    text: str
    added: int


@pytest.fixture(params=["directory", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path, redis: Redis, redis_prefix: str) -> Store:
    if request.param == "directory":
        return DirStore(tmp_path)
    return RedisStore(redis, Keys(redis_prefix), RunId("run"))


async def test_what_was_saved_is_loaded(store: Store) -> None:
    note = Note(text="größer ✓ \x00 <b>", numbers=(1, 2))
    await store.save("testing/3", note)
    assert await store.load("testing/3", Note) == note


async def test_a_missing_key_gives_none(store: Store) -> None:
    assert await store.load("testing/3", Note) is None


async def test_the_latest_value_wins(store: Store) -> None:
    for text in ("first", "second"):
        await store.save("votes", Note(text=text))
    assert await store.load("votes", Note) == Note(text="second")


async def test_a_key_and_a_key_below_it_are_two(store: Store) -> None:
    await store.save("votes", Note(text="a"))
    await store.save("votes/1", Note(text="b"))
    assert await store.load("votes", Note) == Note(text="a")
    assert await store.load("votes/1", Note) == Note(text="b")


async def test_an_older_shape_gives_none(store: Store) -> None:
    await store.save("votes", Note(text="a"))
    assert await store.load("votes", Newer) is None


async def test_large_values_are_kept_whole(store: Store) -> None:
    text = random.Random(1).randbytes(2_000_000).hex()
    await store.save("large", Note(text=text))
    assert await store.load("large", Note) == Note(text=text)


async def test_writers_at_the_same_time_leave_one_whole_value(store: Store) -> None:
    notes = [Note(text=str(n) * 100_000) for n in range(8)]
    await gather_all(store.save("same", note) for note in notes)
    assert await store.load("same", Note) in notes


@pytest.mark.parametrize(
    "key",
    ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".hidden", "a b", "a\n", "a\x00", "ä"],
)
async def test_a_hostile_key_is_refused(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="not a store key"):
        await store.load(key, Note)
    with pytest.raises(ValueError, match="not a store key"):
        await store.save(key, Note(text="a"))


async def test_a_value_that_is_no_document_gives_none(redis: Redis, redis_prefix: str) -> None:
    keys = Keys(redis_prefix)
    for rubbish in (b"", b"not zlib", zlib.compress(b"not json"), zlib.compress(b"\xff")):
        await redis.set(keys.checkpoint(RunId("run"), "votes"), rubbish)
        assert await RedisStore(redis, keys, RunId("run")).load("votes", Note) is None


async def test_a_file_that_is_no_document_gives_none(tmp_path: Path) -> None:
    (tmp_path / "votes.json").write_bytes(b"\xff{")
    assert await DirStore(tmp_path).load("votes", Note) is None


async def test_only_new_content_counts_as_progress(redis: Redis, redis_prefix: str) -> None:
    keys = Keys(redis_prefix)
    store = RedisStore(redis, keys, RunId("run"))
    for text in ("a", "a", "b"):
        await store.save("votes", Note(text=text))
    assert await redis.get(keys.run(RunId("run"), "checkpoints")) == b"2"


async def test_checkpoints_in_redis_go_after_a_week(redis: Redis, redis_prefix: str) -> None:
    keys = Keys(redis_prefix)
    await RedisStore(redis, keys, RunId("run")).save("votes", Note(text="a"))
    assert 6 * 86_400 < await redis.ttl(keys.checkpoint(RunId("run"), "votes")) <= 7 * 86_400


async def test_what_is_true_of_an_environment_is_found_by_every_run_there(
    redis: Redis, redis_prefix: str
) -> None:
    keys, storage = Keys(redis_prefix), Storage(redis, redis_prefix)
    one, two, away = (
        SharingStore(storage.checkpoints(RunId(run)), storage.environment(image, RunId(run)))
        for run, image in (("one", "tree:1"), ("two", "tree:1"), ("three", "tree:2"))
    )
    note = Note(text="passed")
    await one.save(f"{SHARED}tests", note)
    await one.save("regression/tests", Note(text="with an edit"))
    assert await two.load(f"{SHARED}tests", Note) == note
    assert await two.load("regression/tests", Note) is None
    assert await away.load(f"{SHARED}tests", Note) is None
    # Now its own as well: what is shared may go before the run has ended.
    await redis.delete(keys.environment("tree:1", f"{SHARED}tests"))
    assert await two.load(f"{SHARED}tests", Note) == note
    assert (
        6 * 86_400 < await redis.ttl(keys.checkpoint(RunId("two"), f"{SHARED}tests")) <= 7 * 86_400
    )


async def test_another_format_is_named_with_what_to_do(
    tmp_path: Path, redis: Redis, redis_prefix: str
) -> None:
    (tmp_path / "votes.json").write_text('{"format": 1, "record": {"text": "a"}}')
    only = f"only format {FORMAT}: finish it with"
    with pytest.raises(OtherFormat, match=f"in format 1, .* {only}"):
        await DirStore(tmp_path).load("votes", Note)
    keys, run = Keys(redis_prefix), RunId("run")
    newer = zlib.compress(json.dumps({"format": FORMAT + 1, "record": {}}).encode())
    await redis.set(keys.checkpoint(run, "votes"), newer)
    with pytest.raises(OtherFormat, match=f"in format {FORMAT + 1}, .* {only}"):
        await RedisStore(redis, keys, run).load("votes", Note)
    await redis.set(keys.environment("tree:1", "votes"), newer)  # others gather it again
    environment = Storage(redis, redis_prefix).environment("tree:1", run)
    assert await environment.load("votes", Note) is None
