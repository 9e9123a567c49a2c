"""The collected data in a folder: solved issues and the attempts at them, as JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pipeline.data.types import Issue
from pipeline.lab.dataset import BadData, read_lines
from pipeline.models.base import Message
from sandbox.frozen import Frozen

FORMAT = 3
"""Raise it when a model of this module changes."""
MANIFEST = "manifest.json"
ISSUES, ATTEMPTS = "issues.jsonl", "attempts.jsonl"

Outcome = Literal["merged", "changed", "closed", "reverted"]
Stage = Literal["files", "understanding", "localisation", "reproduction", "edit"]
AnswerLevel = Literal["files", "places"]


class SolvedIssue(Frozen):
    """An issue with the developers' own edit, which closed it. Its texts are untrusted."""

    id: str
    """Unique, and a safe file name: `owner__name-NUMBER`."""
    repository: str
    title: str
    body: str
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
    """An answer of a search, in the question that a process reward model is asked about it."""

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
    issues: tuple[SolvedIssue, ...]
    attempts: tuple[Attempt, ...]

    def merge(self, other: LearningData) -> LearningData:
        """Both together; of one issue, or one source's attempt at it, the newer counts."""
        issues = {one.id: one for one in (*self.issues, *other.issues)}
        attempts = {(a.issue, a.source): a for a in (*self.attempts, *other.attempts)}
        return LearningData(tuple(issues.values()), tuple(attempts.values()))


def read_data(folder: Path) -> LearningData:
    """The collected data in `folder`; none if it does not exist yet.

    Raises:
        BadData: it is damaged, or another version of Capuchin wrote it.
    """
    if not (folder / MANIFEST).exists():
        return LearningData((), ())
    check_manifest(folder, "collected")
    return LearningData(
        tuple(read_lines(folder / ISSUES, SolvedIssue)),
        tuple(read_lines(folder / ATTEMPTS, Attempt)),
    )


def write_data(folder: Path, data: LearningData) -> None:
    """Write the collected data into `folder`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / ISSUES, data.issues)
    write_rows(folder / ATTEMPTS, data.attempts)
    write_manifest(folder, "collected", (ISSUES, ATTEMPTS))


def write_manifest(folder: Path, kind: str, names: Sequence[str]) -> None:
    """Write `manifest.json`: format, kind, our version, and the SHA-256 of each file."""
    files = {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in sorted(names)}
    text = {"format": FORMAT, "kind": kind, "capuchin": version("capuchin-bot"), "files": files}
    (folder / MANIFEST).write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def check_manifest(folder: Path, kind: str) -> None:
    """Raises BadData: `folder` does not hold whole data of this kind and format."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        names = dict(found["files"])
        whole = all(
            Path(name).name == name
            and hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
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


def write_rows(path: Path, rows: Iterable[Frozen]) -> None:
    """Write rows as JSON lines atomically. Raises OSError."""
    write_lines(path, (row.model_dump(mode="json") for row in rows))


def write_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """As `write_rows`, of plain JSON."""
    scratch = path.with_name(f".{path.name}.tmp")
    with scratch.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
    scratch.replace(path)
