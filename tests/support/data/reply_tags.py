"""The blocks in which models answer."""

from __future__ import annotations

TAGS = (
    "script",
    "approve",
    "edit",
    "same",
    "fault",
    "bash",
    "tests",
    "submit",
    "choice",
    "why",
    "asked",
    "alike",
    "test_file",
    "title",
    "cause",
    "change",
    "approaches",
    "complete",
    "answer",
    "ranking",
    "relevance",
    "summary",
    "setup",
    "python",
    "give_up",
    "fixed",
    "no_issue",
    "files",
    "places",
    "score",
)
"""Every tag that a template may request."""
