"""Data read from a bare repository: signatures, commits, tree entries, changed files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Signature:
    """An author or committer, with the time (UTC)."""

    name: str
    email: str
    at: datetime

    def to_line(self) -> str:
        """The line of a commit object, without characters that would end a field early."""
        name, email = (re.sub(r"[<>\n\0]", "", text).strip() for text in (self.name, self.email))
        return f"{name} <{email}> {int(self.at.timestamp())} +0000"


@dataclass(frozen=True)
class Commit:
    """A commit object."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str


@dataclass(frozen=True)
class Entry:
    """An entry of a tree. `size` is None unless it is a blob."""

    mode: str
    kind: str
    sha: str
    size: int | None
    path: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class ChangedFile:
    """A file that differs between two trees. `patch` has no header; empty for binary files."""

    path: str
    before: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str


def parse_commit(sha: str, text: str) -> Commit:
    """Parse the output of `git cat-file commit`."""
    head, _, message = text.partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    return Commit(
        sha,
        fields["tree"][0],
        tuple(fields.get("parent", [])),
        parse_signature(fields["author"][0]),
        parse_signature(fields["committer"][0]),
        message,
    )


def parse_signature(line: str) -> Signature:
    """Parse `Name <email> seconds zone`."""
    who, seconds, _zone = line.rsplit(" ", 2)
    name, _, email = who.rpartition(" <")
    return Signature(name, email.rstrip(">"), datetime.fromtimestamp(int(seconds), UTC))


def parse_entry(line: str) -> Entry:
    """Parse one record of `git ls-tree -z --long`."""
    facts, _, path = line.partition("\t")
    mode, kind, sha, size = facts.split()
    return Entry(mode, kind, sha, None if size == "-" else int(size), path)
