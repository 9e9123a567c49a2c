"""Where finished work is kept; the form of saved documents.

Redis and the folders of the command line hold `{"format": 8, "record": …}`. Raise `FORMAT` whenever
a saved model changes, even by a new field: only documents of this one format are read.
"""

import asyncio
import hashlib
import os
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import from_json

from pipeline.run_errors import OtherFormat, UnreadableRecord

M = TypeVar("M", bound=BaseModel)

FORMAT: Final = 8


def encode_record(
    value: BaseModel, *, indent: int | None = None, exclude_defaults: bool = False
) -> bytes:
    """`value` as JSON in UTF-8; equal values yield equal bytes."""
    record = value.model_dump_json(indent=indent, exclude_defaults=exclude_defaults)
    return f'{{"format":{FORMAT},"record":{record}}}'.encode()


def decode_record(kind: type[M], data: bytes, name: str) -> M:
    """Decode a `kind` from `data`; `name` identifies it in errors, such as `Run 4f2a`.

    Raises:
        OtherFormat: another version of Capuchin saved it.
        UnreadableRecord: it is damaged.
    """
    try:
        return cast(Any, _envelope(kind).model_validate_json(data)).record
    except ValidationError:
        found = _read_format(data)
        if found is not None and found != FORMAT:
            raise OtherFormat(name, found, FORMAT) from None
        raise UnreadableRecord(f"{name} is damaged.") from None


@cache
def _envelope(kind: type[BaseModel]) -> type[BaseModel]:
    return create_model(
        f"{kind.__name__}Record",
        __config__=ConfigDict(extra="forbid"),
        format=(Annotated[int, Field(ge=FORMAT, le=FORMAT, strict=True)], ...),
        record=(kind, ...),
    )


def _read_format(data: bytes) -> int | None:
    """The format's number; None for data that no version wrote."""
    try:
        number = from_json(data)["format"]
    except (ValueError, TypeError, LookupError):
        return None
    return number if type(number) is int else None


_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


def validate_key(key: str) -> str:
    """`key` itself: words of letters, digits, `_.-`, joined by slashes.

    Raises:
        ValueError: it is anything else, so that no key can leave the store's folder or prefix.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"not a store key: {key!r}")
    return key


def decode_document(kind: type[M], data: bytes, key: str) -> M | None:
    """The document that a store found under `key`; None if damaged: its step is repeated.

    Raises:
        OtherFormat: another version of Capuchin saved it.
    """
    try:
        return decode_record(kind, data, f"The saved step {key!r}")
    except OtherFormat:
        raise
    except UnreadableRecord:
        return None


class Store(Protocol):
    """One document a key. `DirStore` and the bot's `RedisStore` pass one contract suite."""

    async def load(self, key: str, kind: type[M]) -> M | None:
        """The document under `key`, or None.

        A damaged document is treated as absent: its step is done again.

        Raises:
            OtherFormat: another version of Capuchin saved it.
        """
        ...

    async def save(self, key: str, value: BaseModel) -> None: ...


class _HeldKey:
    """Who has the lock does the work; the others wait for its result."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0
        """How many hold it or wait."""


_HELD: Final[dict[tuple[int, str], _HeldKey]] = {}
"""By the ID of a store, and key. An entry ends with the last who wants it, so its store lives."""


@asynccontextmanager
async def hold_key(store: Store, key: str) -> AsyncGenerator[None]:
    """Lock `key` within this process.

    Who waited loads the key again: the work may be saved by now. Do not ask for a key while you
    hold the same one.
    """
    name = (id(store), key)
    held = _HELD.setdefault(name, _HeldKey())
    held.wanted += 1
    try:
        async with held.lock:
            yield
    finally:
        held.wanted -= 1
        if not held.wanted:
            del _HELD[name]


async def load_or_run(store: Store, key: str, kind: type[M], work: Callable[[], Awaitable[M]]) -> M:
    """The document under `key`; without one, the result of `work`, saved under it.

    Work that is under way for another caller is not begun a second time: unless it fails.
    """
    async with hold_key(store, key):
        saved = await store.load(key, kind)
        if saved is None:
            saved = await work()
            await store.save(key, saved)
        return saved


def digest(*parts: str) -> str:
    """32 hexadecimal digits for a key, others for other `parts`."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32]


SHARED: Final = "regression/base/"
"""Keys below this hold what is true of an environment, whatever the issue: how the tests go there
without any edit."""


class SharingStore:
    """One run's store that also finds what other runs saved below `SHARED`."""

    def __init__(self, own: Store, shared: Store) -> None:
        """`shared` serves all runs with the same code in the same environment."""
        self._own = own
        self._shared = shared

    async def load(self, key: str, kind: type[M]) -> M | None:
        found = await self._own.load(key, kind)
        if found is None and key.startswith(SHARED):
            found = await self._shared.load(key, kind)
            if found is not None:
                await self._own.save(key, found)
        return found

    async def save(self, key: str, value: BaseModel) -> None:
        await self._own.save(key, value)
        if key.startswith(SHARED):
            await self._shared.save(key, value)


class ScopedStore:
    """A part of another store: its keys lie below `scope`."""

    def __init__(self, store: Store, scope: str) -> None:
        """`scope` may be any text; what no key may hold in it becomes `_`."""
        self._store = store
        self._scope = re.sub(r"[^A-Za-z0-9_.-]+", "_", scope)

    async def load(self, key: str, kind: type[M]) -> M | None:
        return await self._store.load(f"{self._scope}/{key}", kind)

    async def save(self, key: str, value: BaseModel) -> None:
        await self._store.save(f"{self._scope}/{key}", value)


class DirStore:
    """One JSON file a key: for the command line, and for reading a run by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def load(self, key: str, kind: type[M]) -> M | None:
        text = await asyncio.to_thread(self.read, key)
        return None if text is None else decode_document(kind, text, key)

    async def save(self, key: str, value: BaseModel) -> None:
        await asyncio.to_thread(self.write, key, encode_record(value, indent=1))

    def read(self, key: str) -> bytes | None:
        """The bytes under `key`, if there are any that count."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        scratch.write_bytes(data)
        scratch.replace(path)  # atomic: a reader sees the old file or the new, never half

    def _path(self, key: str) -> Path:
        return self.root / f"{validate_key(key)}.json"
