"""Solved issues of benchmarks, pull requests, clones.

The paper's rules (section 3.1 of SWE-Reasoner and its source, Lingma SWE-GPT): an issue of at least
20 characters with at most 3 links, an edit of 1 to 5 code files, not of tests alone.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, AliasPath, BaseModel, Field

from pipeline.codebase.git import GitFailed, git
from pipeline.codebase.unified_diff import FileDiff, parse_diff, split_diff
from pipeline.data.types import CommitSha
from pipeline.lab.dataset import (
    BadData,
    Instance,
    PublishedImage,
    TestNames,
    prediction_files,
    read_dataset,
    read_lines,
    read_predictions,
    read_rows,
)
from pipeline.lab.learning.records import Attempt, LearningData, SolvedIssue
from pipeline.lab.recall import find_clone
from pipeline.languages.conventions import is_test
from sandbox.frozen import Frozen


class DatedInstance(Instance):
    """An instance of SWE-bench, SWE-Gym, SWE-rebench or SWE-smith; tests, date and licence where
    the file has them."""

    base_commit: CommitSha | Literal[""] = ""
    patch: str
    image: PublishedImage = ""
    created_at: str = ""
    licence: str = Field(
        default="unknown", validation_alias=AliasChoices("licence", "license", "license_name")
    )
    test_patch: str = ""
    fail_to_pass: TestNames = Field(
        default=(), validation_alias=AliasChoices("FAIL_TO_PASS", "fail_to_pass")
    )
    pass_to_pass: TestNames = Field(
        default=(), validation_alias=AliasChoices("PASS_TO_PASS", "pass_to_pass")
    )

    @property
    def reference(self) -> str:
        """The edit that solves it. SWE-smith's patch is the one that makes the bug, and its commit
        the branch of the instance's name."""
        return self.patch if self.base_commit else reverse_diff(self.patch)


def read_instance_issues(
    path: Path, trees: Path | None = None
) -> tuple[LearningData, "CollectReport"]:
    """The instances of a file, as solved issues.

    Raises:
        BadData: the file, or a clone in `trees`, cannot be read.
    """
    found, report = list[SolvedIssue](), CollectReport()
    for row in read_rows(path, DatedInstance):
        if not row.problem_statement.strip():
            report.left_out["it has no text"] += 1
            continue
        title, _, body = row.problem_statement.strip().partition("\n")
        found.append(
            SolvedIssue(
                id=row.instance_id,
                repository=row.repo,
                title=title.strip(),
                body=body.strip(),
                image=row.image,
                base_commit=row.base_commit or asyncio.run(_find_branch(trees, row)),
                closed=row.created_at,
                reference=row.reference,
                tests=row.test_patch,
                fail_to_pass=row.fail_to_pass,
                pass_to_pass=row.pass_to_pass,
                licence=row.licence,
                source="instances",
            )
        )
    report.taken = len(found)
    return LearningData(tuple(found)), report


async def _find_branch(trees: Path | None, row: DatedInstance) -> str:
    """The commit of the branch of the instance's name; empty without it."""
    clone = find_clone(trees, row.repo) if trees else None
    if clone is None:
        return ""
    try:
        found = await git(
            clone, "rev-parse", "--verify", f"refs/heads/{row.instance_id}^{{commit}}"
        )
    except GitFailed:
        return ""
    return found.decode().strip()


def reverse_diff(diff: str) -> str:
    """The diff that undoes `diff`, which only changes lines of files."""
    parts: list[str] = []
    for file in parse_diff(diff):
        parts.append(
            f"diff --git a/{file.path} b/{file.path}\n--- a/{file.path}\n+++ b/{file.path}"
        )
        shift = 0
        for hunk in file.hunks:
            lines = [({"+": "-", "-": "+"}.get(mark, mark), text) for mark, text in hunk.lines]
            before, after = (sum(mark != gone for mark, _ in lines) for gone in "+-")
            start = hunk.start + shift
            parts.append(f"@@ -{start},{before} +{hunk.start},{after} @@")
            parts += [f"{mark}{text}" for mark, text in lines]
            shift += before - after
    return "\n".join(parts) + "\n"


def read_public_attempts(
    instances: Path, predictions: Path, labels: Path | None
) -> tuple[LearningData, "CollectReport"]:
    """The instances with the edits of every member, each labelled where `labels` is given.

    Raises:
        BadData: a file is missing, broken or contradicts another.
    """
    found, report = read_instance_issues(instances)
    known = {issue.id for issue in found.issues}
    if labels:
        data = read_dataset(instances, predictions, labels)
        attempts = tuple(
            Attempt(issue=name, source=member, diff=diff, resolved=data.is_right(member, name))
            for member in data.members
            for name, diff in data.patches[member].items()
            if name in known
        )
    else:
        attempts = tuple(
            Attempt(issue=name, source=member, diff=diff)
            for member, file in prediction_files(predictions).items()
            for name, diff in read_predictions(file).items()
            if name in known
        )
    return LearningData(found.issues, attempts), report


class Trajectory(BaseModel):
    """The end of a public system's run, with the names that SWE-Gym, SWE-rebench, SWE-smith and
    SWE-agent's data set give it. Its conversation is of another machine than ours."""

    instance_id: str
    model: str = Field(
        default="", validation_alias=AliasChoices("model", "model_name", "model_name_or_path")
    )
    number: str = Field(
        default="", validation_alias=AliasChoices("traj_id", "trajectory_id", "run_id")
    )
    diff: str = Field(
        default="",
        validation_alias=AliasChoices(
            "model_patch", "generated_patch", "patch", AliasPath("test_result", "git_patch")
        ),
    )
    resolved: bool | None = Field(default=None, validation_alias=AliasChoices("resolved", "target"))


def read_trajectories(
    path: Path, known: Container[str], report: "CollectReport"
) -> Iterator[Attempt]:
    """The labelled edits with which runs ended, at issues that are `known`. Raises BadData."""
    for number, row in enumerate(read_lines(path, Trajectory), 1):
        if row.instance_id not in known:
            report.left_out["its issue is not collected"] += 1
        elif not row.diff.strip():
            report.left_out["it ended without an edit"] += 1
        else:
            report.taken += 1
            source = f"{row.model or 'trajectory'} {row.number or number}"
            yield Attempt(
                issue=row.instance_id, source=source, diff=row.diff, resolved=row.resolved
            )


SHORTEST_ISSUE, MOST_LINKS, MOST_FILES = 20, 3, 5
_CLOSES = re.compile(r"\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?):? +#(\d{1,9})\b", re.IGNORECASE)
_MERGES = re.compile(r"Merge pull request #(\d{1,9})\b|[^\n]{1,500}\(#(\d{1,9})\)(?:\n|$)")
_CODE = re.compile(
    r"\.(py|pyi|pyx|jsx?|mjs|tsx?|java|kt|go|rs|c|h|cc|cpp|hpp|cs|rb|php|scala|swift)",
    re.IGNORECASE,
)
_REPOSITORY = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}")
_LICENCES: Mapping[str, str] = {
    "Apache License": "Apache-2.0",
    "Permission is hereby granted, free of charge": "MIT",
    "GNU AFFERO GENERAL PUBLIC LICENSE": "AGPL-3.0",
    "GNU LESSER GENERAL PUBLIC LICENSE": "LGPL",
    "GNU GENERAL PUBLIC LICENSE": "GPL",
    "Mozilla Public License": "MPL-2.0",
    "Neither the name": "BSD-3-Clause",
    "Redistribution and use in source and binary forms": "BSD-2-Clause",
    "Permission to use, copy, modify, and/or distribute": "ISC",
}
"""A sentence of each licence, the more telling first."""


class IssueRow(Frozen):
    """A closed issue: one row of `--issues`, whose edit is in the clone's history."""

    repository: str
    number: int
    title: str
    body: str | None = None
    pull: int | None = None
    """The merged pull request that says that it closes the issue."""
    licence: str = ""
    """Of the repository; empty: it is read from the commit."""


def find_closed(text: str) -> list[int]:
    """The issues that a commit or a pull request with this text closes.

    https://docs.github.com/issues/tracking-your-work-with-issues/linking-a-pull-request-to-an-issue
    """
    return [int(number) for number in _CLOSES.findall(text)]


@dataclass
class CollectReport:
    """How many were taken, and how many were left out for which reason."""

    taken: int = 0
    left_out: Counter[str] = field(default_factory=Counter[str])

    def add(self, found: SolvedIssue | str, into: list[SolvedIssue]) -> None:
        """Take an issue, or count the reason against it."""
        if isinstance(found, str):
            self.left_out[found] += 1
        else:
            self.taken += 1
            into.append(found)


async def read_history(
    issues_closed: Iterable[IssueRow], trees: Path
) -> tuple[LearningData, CollectReport]:
    """The issues that a commit of the clone's main line closes, by its message or by its pull
    request.

    Raises:
        BadData: a clone of one of the repositories is missing, or cannot be read.
    """
    wanted: dict[str, list[IssueRow]] = defaultdict(list)
    for row in issues_closed:
        wanted[row.repository].append(row)
    report, issues = CollectReport(), list[SolvedIssue]()
    for repository, rows in wanted.items():
        clone = find_clone(trees, repository) if _REPOSITORY.fullmatch(repository) else None
        if clone is None:
            raise BadData(
                f"{trees} holds no clone of {repository}: run `git clone --bare` in it first."
            )
        try:
            closing, merging = await _read_closing_commits(clone)
            for row in rows:
                commit = closing.get(row.number) or merging.get(row.pull or 0)
                if commit is None:
                    report.left_out["no commit says that it closes the issue"] += 1
                    continue
                report.add(await _read_commit(clone, row, *commit), issues)
        except GitFailed as error:
            raise BadData(f"{clone} cannot be read: {error.words}") from None
    return LearningData(tuple(issues)), report


_Commit = tuple[str, str, str]
"""A commit of the main line, its first parent, and its date."""


async def _read_closing_commits(clone: Path) -> tuple[dict[int, _Commit], dict[int, _Commit]]:
    """The commits by the issues that they close, and by the pull requests that they merge."""
    log = await git(clone, "log", "--first-parent", "-z", "--format=%H %P%n%cI%n%B", "HEAD")
    closing: dict[int, _Commit] = {}
    merging: dict[int, _Commit] = {}
    for entry in log.decode("utf-8", "replace").split("\0"):
        names, _, rest = entry.strip("\n").partition("\n")
        date, _, message = rest.partition("\n")
        commits = names.split()
        if len(commits) < 2:
            continue
        for number in find_closed(message):
            closing.setdefault(number, (commits[0], commits[1], date))
        if pull := _MERGES.match(message):
            merging.setdefault(int(pull[1] or pull[2]), (commits[0], commits[1], date))
    return closing, merging


async def _read_commit(
    clone: Path, row: IssueRow, commit: str, parent: str, date: str
) -> SolvedIssue | str:
    """The issue that the commit solves, or why it is left out."""
    diff = await git(clone, "diff", "--no-ext-diff", "--no-color", "--no-textconv", parent, commit)
    if len(diff) > 1_000_000:
        return "the edit is too large"
    patch, body = diff.decode("utf-8", "replace"), row.body or ""
    if why := explain_exclusion(row.title, body, parse_diff(patch)):
        return why
    tests, reference = split_diff(patch, lambda file: is_test(file.path))
    return SolvedIssue(
        id=f"{row.repository.replace('/', '__')}-{row.number}",
        repository=row.repository,
        title=row.title,
        body=body,
        base_commit=parent,
        closed=date,
        reference=reference,
        tests=tests,
        licence=row.licence or await _read_licence(clone, parent),
        source="history",
    )


async def _read_licence(clone: Path, commit: str) -> str:
    for name in ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENSE.rst", "LICENCE", "COPYING"):
        try:
            text = await git(clone, "cat-file", "blob", f"{commit}:{name}")
        except GitFailed:
            continue
        return identify_licence(text[:20_000].decode("utf-8", "replace"))
    return "unknown"


def identify_licence(text: str) -> str:
    """The SPDX identifier of a licence's text; `unknown` if no known sentence is in it."""
    plain = " ".join(text.split())
    return next((name for sentence, name in _LICENCES.items() if sentence in plain), "unknown")


def is_code(path: str) -> bool:
    return bool(_CODE.fullmatch(Path(path).suffix))


def explain_exclusion(title: str, body: str, files: Iterable[FileDiff]) -> str:
    """Why the paper's rules leave out an issue with this edit; empty if they take it."""
    text = f"{title}\n{body}".strip()
    code = [file for file in files if is_code(file.path)]
    own = [file for file in code if not is_test(file.path)]
    if len(text) < SHORTEST_ISSUE:
        return f"the issue has fewer than {SHORTEST_ISSUE} characters"
    if len(re.findall(r"https?://", text, re.IGNORECASE)) > MOST_LINKS:
        return f"the issue has more than {MOST_LINKS} links"
    if not own:
        return "the edit changes tests alone" if code else "the edit changes no code"
    if len(own) > MOST_FILES:
        return f"the edit changes more than {MOST_FILES} code files"
    return ""
