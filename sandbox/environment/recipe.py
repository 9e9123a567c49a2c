"""The installer's record of an installation, stored in the image."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError

from sandbox.frozen import Frozen

MAX_BYTES = 1024 * 1024
"""A longer record is ignored."""

Text = Annotated[str, Field(max_length=2000)]


class LeftOut(Frozen):
    """A requirement of only the tests that was not available."""

    requirement: Text
    reason: Text


class Installation(Frozen):
    """The installer's record. The repository's code ran beside it: its contents are claims."""

    attempt: Text = ""
    """The name of the attempt."""
    python: Text = ""
    """The version of the environment's Python, `3.N.P`."""
    as_of: Text = ""
    """The last day of the index that counted, `YYYY-MM-DD`; empty if there was no limit."""
    version: Text = ""
    """The version given to the package; empty if none was given."""
    version_source: Text = ""
    """The source of that version, in words."""
    distributions: tuple[Text, ...] = Field(default=(), max_length=5000)
    """All installed distributions, `name==version`, sorted."""
    commands: tuple[Text, ...] = Field(default=(), max_length=500)
    """The installer's commands, in order."""
    left_out: tuple[LeftOut, ...] = Field(default=(), max_length=500)
    later: dict[str, str] = Field(default={}, max_length=500)
    """Packages for which newer files counted as well, each with its day."""


def parse_installation(data: bytes) -> Installation | None:
    """Parse the JSON record in `data`; None if it is no such record, or too long."""
    if len(data) > MAX_BYTES:
        return None
    try:
        return Installation.model_validate_json(data)
    except ValidationError:
        return None
