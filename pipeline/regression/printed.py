"""What a test runner prints beside the tests' failures: preparations, progress, passes, skips."""

from __future__ import annotations

import re

from prompts.text import strip_ansi

_PROGRESS = re.compile(r"(?:(?:\S{1,300} )?[.FEsxXuR]+ +)?\[ *\d{1,3}%\]|[.FEsxXu]{20,}")
_SETUP = re.compile(
    r"Testing against Django installed in .+|Importing application \S+"
    r"|(?:Creating|Cloning) test database .+|Skipping setup of unused database.+"
    r"|Operations to perform:|(?:Synchroniz\w+|Apply all) [\w ]+:.*"
    r"|Creating tables?\b.*|Running (?:deferred SQL|migrations)\b.*"
    r"|Installing (?:custom SQL|indexes)\b.*|Applying \S+\.\.\.( OK.*)?"
    r"|System check identified no issues .*"
)
"""What Django's runner prints before the first test, such as a line for each table."""


def drop_progress(output: str) -> str:
    """The output without the runner's preparations, progress, and many lines of passed and skipped
    tests."""
    lines = output.split("\n")
    texts = [strip_ansi(line).strip() for line in lines]
    passed = {at for at, text in enumerate(texts) if _shows_pass(text) or _shows_skip(text)}
    dropped = passed if len(passed) > 20 else set[int]()
    # unittest prints the name of a test that has a docstring on the line before its result.
    name = re.compile(r"test\w{0,300} \([\w.<>]{1,600}\)")
    dropped |= {at - 1 for at in dropped if at and name.fullmatch(texts[at - 1])}
    # Below this heading, a test may have printed what looks like progress: evidence, perhaps.
    heading = re.compile(r"=+ (?:FAILURES|ERRORS) =+|(?:FAIL|ERROR): .+")
    end = next((at for at, text in enumerate(texts) if heading.fullmatch(text)), len(texts))
    dropped |= {
        at
        for at, text in enumerate(texts[:end])
        if _PROGRESS.fullmatch(text) or _SETUP.fullmatch(text)
    }
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)


def _shows_pass(line: str) -> bool:
    """Whether pytest, unittest or SymPy's runner says here that a test passed."""
    return line.partition("  ")[0].endswith((" PASSED", " ok")) and (
        line.startswith("test") or "::" in line or line.endswith(" ... ok")
    )


def _shows_skip(line: str) -> bool:
    return (
        line.startswith("SKIPPED [")
        or " ... skipped " in line
        or ("::" in line and " SKIPPED" in line)
    )
