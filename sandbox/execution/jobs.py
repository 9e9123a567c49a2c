"""Reads what process 1 reports about the checkout that a command left."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any

from sandbox.base import Ending, Execution
from sandbox.command_run import Change, CommandRun
from sandbox.errors import SandboxUnavailable

NOT_ENDED = {
    Ending.TIMEOUT: "It was killed because it ran too long.",
    Ending.MEMORY: "It was killed because it used too much memory.",
    Ending.OUTPUT: "It was killed because it printed too much.",
    Ending.KILLED: "It was killed by a signal.",
}


def with_changes(execution: Execution, answer: Mapping[str, Any]) -> Execution:
    """`execution`, as a `CommandRun` if process 1 reports changes, or why it has none.

    Raises:
        SandboxUnavailable: the report is not one of process 1.
    """
    facts = execution.model_dump()
    if "changes" in answer:
        try:
            changes = tuple(_to_change(*fields) for fields in answer["changes"])
        except (TypeError, ValueError, binascii.Error) as error:
            raise SandboxUnavailable("The report of a command's changes is damaged.") from error
        return CommandRun(**facts, changes=changes)
    if "lost" in answer:
        return CommandRun(**facts, lost=str(answer["lost"]))
    return execution


def to_command_run(execution: Execution) -> CommandRun:
    """The run of a command; one that was killed leaves no changes, and says why."""
    if isinstance(execution, CommandRun):
        return execution
    lost = NOT_ENDED.get(execution.ending, "Its checkout could not be read.")
    return CommandRun(**execution.model_dump(), lost=lost)


def _to_change(path: str, mode: str | None, content: str | None, was_there: bool) -> Change:
    # A name that is not UTF-8 gets a backslash, which no path of an edit may have.
    path = os.fsencode(path).decode("utf-8", "backslashreplace")
    if content is None:
        return Change(path=path, was_there=was_there)
    data = base64.b64decode(content, validate=True)
    return Change(path=path, content=data, mode=mode or "100644", was_there=was_there)
