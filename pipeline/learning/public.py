"""Solved issues of a benchmark, and public systems' labelled edits for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from pipeline.evaluation.dataset import (
    LocatedInstance,
    prediction_files,
    read_dataset,
    read_predictions,
    read_rows,
)
from pipeline.learning.records import Attempt, LearningData, SolvedIssue


class DatedInstance(LocatedInstance):
    """A benchmark's instance; tests and date where the file has them."""

    created_at: str = ""
    licence: str = "unknown"
    test_patch: str = ""
    fail_to_pass: tuple[str, ...] = Field(default=(), alias="FAIL_TO_PASS")
    pass_to_pass: tuple[str, ...] = Field(default=(), alias="PASS_TO_PASS")

    @field_validator("fail_to_pass", "pass_to_pass", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value


def read_instance_issues(path: Path) -> LearningData:
    """The instances of a file in SWE-bench's format, as solved issues. Raises BadData."""
    found: list[SolvedIssue] = []
    for row in read_rows(path, DatedInstance):
        title, _, body = row.problem_statement.strip().partition("\n")
        found.append(
            SolvedIssue(
                id=row.instance_id,
                repository=row.repo,
                title=title.strip(),
                body=body.strip(),
                base_commit=row.base_commit,
                closed=row.created_at,
                reference=row.patch,
                tests=row.test_patch,
                fail_to_pass=row.fail_to_pass,
                pass_to_pass=row.pass_to_pass,
                licence=row.licence,
                source="instances",
            )
        )
    return LearningData(tuple(found), ())


def read_public_attempts(instances: Path, predictions: Path, labels: Path | None) -> LearningData:
    """The instances with the edits of every member, each labelled where `labels` is given.

    Raises:
        BadData: a file is missing, broken or contradicts another.
    """
    found = read_instance_issues(instances)
    if labels:
        data = read_dataset(instances, predictions, labels)
        attempts = tuple(
            Attempt(issue=name, source=member, diff=diff, resolved=data.is_right(member, name))
            for member in data.members
            for name, diff in data.patches[member].items()
        )
    else:
        known = {issue.id for issue in found.issues}
        attempts = tuple(
            Attempt(issue=name, source=member, diff=diff)
            for member, file in prediction_files(predictions).items()
            for name, diff in read_predictions(file).items()
            if name in known
        )
    return found.merge(LearningData((), attempts))
