"""The collected data in a folder: solved issues and the attempts at them, as JSON lines."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Literal

from pydantic import BaseModel

from pipeline.data.types import Issue
from pipeline.lab.dataset import BadData, read_lines
from pipeline.models.base import Message
from sandbox.frozen import Frozen

FORMAT = 5
"""Raise it when a model of this module changes."""
MANIFEST = "manifest.json"
ISSUES, ATTEMPTS = "issues.jsonl", "attempts.jsonl"

Outcome = Literal["merged", "changed", "closed", "reverted"]
Stage = Literal["files", "understanding", "localisation", "reproduction", "edit"]
AnswerLevel = Literal["files", "places", "edits"]


class SolvedIssue(Frozen):
    """An issue with the developers' own edit, which closed it. Its texts are untrusted."""

    id: str
    """Unique, and a safe file name: `owner__name-NUMBER`."""
    repository: str
    title: str
    body: str
    image: str = ""
    """A published image in which it is installed, if the data set names one."""
    base_commit: str = ""
    """The commit that the reference applies to; empty if it is not known."""
    closed: str = ""
    """When it was closed, ISO 8601; empty if it is not known."""
    reference: str
    """The developers' edit without its tests, as a unified diff."""
    tests: str = ""
    """The tests of the developers' edit, as a unified diff."""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    licence: str = "unknown"
    source: Literal["pulls", "history", "instances"]

    @property
    def issue(self) -> Issue:
        """The issue in the form of the prompts."""
        return Issue(repository=self.repository, title=self.title, body=self.body)


class ReplyRow(Frozen):
    """One reply of a model, with exactly the request that it answered."""

    stage: Stage
    system: str
    messages: tuple[Message, ...]
    """As they were sent: answers of earlier replies without their thinking."""
    thinking: str = ""
    answer: str
    right: bool | None = None
    """Whether its conversation named what the developers changed; None: the attempt's checks say.

    Conversations of a search are checked by their own answers, since all attempts share them.
    """


class JudgedAnswer(Frozen):
    """An answer of a search, or a whole edit, in the question that a reward model that answers `+`
    or `-` is asked about it."""

    level: AnswerLevel
    system: str
    question: str
    right: bool


class Attempt(Frozen):
    """One edit for one issue, with what is known of how it came about. None: not known."""

    issue: str
    """`SolvedIssue.id`."""
    source: str
    """The public system that wrote it, or `run NAME, sample N`."""
    diff: str
    """Empty if there is no edit."""
    summary: str = ""
    """What its sample left (`Candidate.summary`), which a verifier reads beside the edit; empty
    without a run of ours, and where the run's choice read none."""
    resolved: bool | None = None
    """The label: whether the benchmark's tests pass with it, or people merged it as it was."""
    outcome: Outcome | None = None
    """What became of the pull request with it; None without one, or if unknown."""
    shown: tuple[str, ...] | None = None
    """The files that the run took into its context."""
    replies: tuple[ReplyRow, ...] = ()
    judged: tuple[JudgedAnswer, ...] = ()
    """The answers of the run's search, which all its attempts share."""
    script: str = ""
    """The reproduction script; empty if there is none."""
    red_before: bool | None = None
    """Whether the script reports the issue on the unedited code."""
    green_on_reference: bool | None = None
    """Whether the script passes with the developers' edit."""
    passes_script: bool | None = None
    broken: tuple[str, ...] | None = None
    """Tests of the repository that pass without the edit and fail with it."""


@dataclass(frozen=True)
class LearningData:
    """Issues and attempts of one source."""

    issues: tuple[SolvedIssue, ...]
    attempts: tuple[Attempt, ...] = ()


class DataWriter:
    """Adds to collected data; of one issue, or one source's attempt at it, the newer counts."""

    def __init__(self, issues: dict[str, SolvedIssue], spool: BinaryIO) -> None:
        self.issues = issues
        self.places: dict[str, dict[str, int]] = defaultdict(dict)
        """By issue and source: where its new attempt is in `spool`."""
        self._spool = spool

    def add(self, data: LearningData) -> None:
        self.issues |= {one.id: one for one in data.issues}
        for attempt in data.attempts:
            self.places[attempt.issue][attempt.source] = self._spool.tell()
            self._spool.write(encode_row(attempt.model_dump(mode="json")))


@contextmanager
def open_data(folder: Path) -> Generator[DataWriter]:
    """Add to the collected data in `folder`, which is written when the block ends without error.

    Attempts at one issue stand together. Only one attempt at a time is in memory.

    Raises:
        BadData: the data there are damaged, or of another format.
        OSError: they cannot be written.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder) as spool:
        try:
            writer = DataWriter(read_issues(folder), spool)
            yield writer
        except BaseException:
            if is_new:
                folder.rmdir()
            raise
        write_rows(folder / ISSUES, writer.issues.values())
        with replace_file(folder / ATTEMPTS) as file:
            file.writelines(_merge_attempts(folder, dict(writer.places), spool))
    write_manifest(folder, "collected", (ISSUES, ATTEMPTS))


def _merge_attempts(
    folder: Path, places: dict[str, dict[str, int]], spool: BinaryIO
) -> Iterator[bytes]:
    old = folder / ATTEMPTS
    lines = _read_heads(old) if old.exists() else ()
    for issue, group in groupby(lines, key=lambda one: one[1].issue):
        new = places.pop(issue, {})
        yield from (line for _, head, line in group if head.source not in new)
        yield from _read_at(spool, new.values())
    for new in places.values():
        yield from _read_at(spool, new.values())


def _read_at(spool: BinaryIO, places: Iterable[int]) -> Iterator[bytes]:
    for place in places:
        spool.seek(place)
        yield spool.readline()


class _Head(BaseModel):
    issue: str
    source: str


def _read_heads(path: Path) -> Iterator[tuple[int, _Head, bytes]]:
    """Each line of a file of attempts, after its place and what it is."""
    with path.open("rb") as file:
        place = 0
        for line in file:
            yield place, _Head.model_validate_json(line), line
            place += len(line)


def read_issues(folder: Path) -> dict[str, SolvedIssue]:
    """The collected issues in `folder` by their names; none if there are none yet.

    Raises:
        BadData: they are damaged, or of another format.
    """
    if not (folder / MANIFEST).exists():
        return {}
    check_manifest(folder, "collected")
    return {one.id: one for one in read_lines(folder / ISSUES, SolvedIssue)}


def index_attempts(folder: Path) -> dict[str, int]:
    """By issue, where its attempts begin in the file of attempts."""
    heads = _read_heads(folder / ATTEMPTS)
    return {issue: next(group)[0] for issue, group in groupby(heads, key=lambda one: one[1].issue)}


def read_group(folder: Path, place: int) -> Iterator[Attempt]:
    """The attempts at the issue whose first one is at `place`."""
    issue = None
    with (folder / ATTEMPTS).open("rb") as file:
        file.seek(place)
        for line in file:
            attempt = Attempt.model_validate_json(line)
            if attempt.issue != (issue := issue or attempt.issue):
                return
            yield attempt


def write_manifest(folder: Path, kind: str, names: Sequence[str]) -> None:
    """Write `manifest.json`: format, kind, our version, and the SHA-256 of each file."""
    files = {name: digest_file(folder / name) for name in sorted(names)}
    text = {"format": FORMAT, "kind": kind, "capuchin": version("capuchin-bot"), "files": files}
    (folder / MANIFEST).write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def check_manifest(folder: Path, kind: str) -> None:
    """Raises BadData: `folder` does not hold whole data of this kind and format."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        names = dict(found["files"])
        whole = all(
            Path(name).name == name and digest_file(folder / name) == digest
            for name, digest in names.items()
        )
        format_number, actual = found["format"], found["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadData(f"{folder} has no {MANIFEST} that can be read.") from None
    if format_number != FORMAT:
        raise BadData(
            f"{folder} has format {format_number!r}, and this Capuchin reads only {FORMAT}."
        )
    if actual != kind:
        step = {"collected": "collect", "filtered": "filter"}[kind]
        raise BadData(f"{folder} does not come from `capuchin learn {step}`.")
    if not whole:
        raise BadData(f"{folder} is damaged: a file differs from its digest in {MANIFEST}.")


def digest_file(path: Path) -> str:
    """The SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_rows(path: Path, rows: Iterable[BaseModel]) -> None:
    """Write rows as JSON lines atomically, by their fields' aliases. Raises OSError."""
    with replace_file(path) as file:
        file.writelines(encode_row(row.model_dump(mode="json", by_alias=True)) for row in rows)


def encode_row(row: Mapping[str, object]) -> bytes:
    """A row as a line of JSON."""
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


@contextmanager
def replace_file(path: Path) -> Generator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without error."""
    scratch = path.with_name(f".{path.name}.tmp")
    with scratch.open("wb") as file:
        yield file
    scratch.replace(path)
