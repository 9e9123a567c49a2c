"""A cache of facts about file contents, by blob, so that no later issue computes them again.

An SQLite file in the mirror: deleted with the mirror, and everything in it can be recomputed.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_NAME = "capuchin-reading.sqlite"
_VERSION = 1
"""The format of the tables and their contents; a file of another format is rebuilt."""
_MOST_BYTES = 4_000_000_000
"""Bytes; a larger file, full of old verdicts and vectors, is rebuilt."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_WRITABLE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
_AT_ONCE = 500
"""Blobs in one query; SQLite allows at least 999."""
_TABLES = f"""
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS note
        (topic TEXT, blob TEXT, said TEXT, PRIMARY KEY (topic, blob)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS page (id INTEGER PRIMARY KEY, blob TEXT UNIQUE, size INT);
    CREATE VIRTUAL TABLE IF NOT EXISTS word
        USING fts5(defined, held, content='', tokenize="unicode61 tokenchars '_'");
    CREATE VIRTUAL TABLE IF NOT EXISTS spread USING fts5vocab(word, row);
    CREATE VIRTUAL TABLE IF NOT EXISTS place USING fts5vocab(word, instance);
    PRAGMA user_version = {_VERSION};
"""


class ContentCache:
    """Facts about contents, by topic, and a word index of them. For one task at a time."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def get(self, topic: str, blobs: Iterable[str]) -> dict[str, str]:
        """The facts under `topic`, by blob; blobs without one are missing."""
        names = list(dict.fromkeys(blobs))
        found: dict[str, str] = {}
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            question = f"SELECT blob, said FROM note WHERE topic = ? AND blob IN ({marks})"  # noqa: S608 - marks only
            found.update(self.db.execute(question, (topic, *some)))
        return found

    def put(self, topic: str, entries: Iterable[tuple[str, str]]) -> None:
        """Save facts, each a blob and its text."""
        rows = [(topic, blob, words) for blob, words in entries]
        with self.db:
            self.db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", rows)


def cache_path(git_dir: Path) -> Path:
    return git_dir / _NAME


async def run_with_cache(git_dir: Path, work: Callable[[ContentCache], Awaitable[T]]) -> T:
    """The result of `work` with the cache in `git_dir`.

    A damaged cache is deleted. If none can be written (disk full, no permission), a temporary one
    serves. `work` may be called twice.
    """
    place = cache_path(git_dir)
    try:
        return await _run_on(place, work)
    except sqlite3.DatabaseError as error:
        # The second byte of an error code only refines the first.
        code = error.sqlite_errorcode & 0xFF
        if code not in _DAMAGED and code not in _NOT_WRITABLE:
            raise
        if code in _DAMAGED:
            _delete(place)
    return await _run_on(None, work)


async def _run_on(place: Path | None, work: Callable[[ContentCache], Awaitable[T]]) -> T:
    # In a thread: opening waits while another process writes.
    with closing(await asyncio.to_thread(_open, place)) as db:
        return await work(ContentCache(db))


def _open(place: Path | None) -> sqlite3.Connection:
    if place is not None and place.is_file() and place.stat().st_size > _MOST_BYTES:
        _delete(place)
    db = _connect(place)
    try:
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        if place is not None and version not in (0, _VERSION):
            db.close()
            _delete(place)
            db, version = _connect(place), 0
        if version == 0:
            db.executescript(_TABLES)
        db.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _connect(place: Path | None) -> sqlite3.Connection:
    return sqlite3.connect(
        str(place or ""),  # empty: a temporary file of its own
        timeout=60,
        check_same_thread=False,
        isolation_level="IMMEDIATE",
    )


def _delete(place: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)
