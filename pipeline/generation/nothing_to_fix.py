"""Reads why no script can show an issue."""

from __future__ import annotations

from typing import Literal, get_args

from pipeline.replies import Malformed

NothingToFix = Literal["question", "wish", "elsewhere"]
"""The issue asks a question, does not say what it wants, or another package is at fault."""


def read_no_issue(body: str) -> tuple[NothingToFix, str] | Malformed:
    """The kind and the answer to the reporter in a `<no_issue>` block."""
    first, _, why = body.strip().partition("\n")
    kinds: dict[str, NothingToFix] = {kind: kind for kind in get_args(NothingToFix)}
    kind = kinds.get(first.strip().strip("`.:").lower())
    if kind is None:
        return Malformed(f"The first line of <no_issue> must be one of {', '.join(kinds)}.")
    return kind, " ".join(why.split())
