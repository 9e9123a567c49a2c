"""What a process reward model is asked; its training data is rendered by the same function."""

from __future__ import annotations

from typing import Literal

from pipeline.shown import Located
from pipeline.types import Issue
from prompts.templates import render

Form = Literal["sign", "words"]
"""How the judge answers: `sign`, `+` or `-` as its first token; `words`, with a score from 0 to 100
for a service that gives no log-probabilities."""


def render_judgement(issue: Issue, found: Located, form: Form = "sign") -> tuple[str, str]:
    """The system text and the question about one answer of the search.

    With `places`, those are judged, and else the files (SWE-Reasoner, section 2.2.2). Scores, once
    given, are not shown.
    """
    system = render("search/judge_system", form=form)
    return system, render("search/judge", issue=issue, found=found, form=form)
