"""The first stage: which files have to change (SWE-Reasoner's repository understanding)."""

from __future__ import annotations

from pipeline.codebase.commit import Codebase
from pipeline.replies import Malformed
from pipeline.search.reading import ReadingMachine, ReadingState
from pipeline.shown import SuspectFile
from prompts.templates import render

MOST_FILES = 10
"""The paper trains on edits of one to five files (section 3.1)."""
_LONGEST_WHY = 400


class UnderstandingMachine(ReadingMachine):
    """Answers with `<files>`: a path a line, with the reason."""

    stage = "understanding"
    tag = "files"

    @property
    def task(self) -> str:
        return render("search/understand", turns=self.attempts)

    async def take_answer(self, state: ReadingState, body: str) -> Malformed | None:
        """Record the files."""
        found = parse_files(body, self._resources.codebase)
        if isinstance(found, Malformed):
            return found
        state.files = found
        return None


def parse_files(body: str, codebase: Codebase) -> tuple[SuspectFile, ...] | Malformed:
    """Parse lines of `PATH` or `PATH: REASON`; each path must be a file of `codebase`."""
    found: dict[str, SuspectFile] = {}
    for line in filter(None, map(str.strip, body.splitlines())):
        text = clean_line(line)
        path, _, why = (text, "", "") if text in codebase.files else text.partition(":")
        path = path.strip().strip("`").removeprefix("./")
        file = codebase.files.get(path)
        if file is None or not file.regular:
            return Malformed(f"There is no file {path[:200]!r}. Name paths from the root.")
        found.setdefault(path, SuspectFile(path=path, why=why.strip()[:_LONGEST_WHY]))
    if not 0 < len(found) <= MOST_FILES:
        return Malformed(f"Name 1 to {MOST_FILES} files, one a line.")
    return tuple(found.values())


def clean_line(line: str) -> str:
    """`line` without the bullet of a list."""
    return line[2:].strip() if line.startswith(("- ", "* ")) else line
