"""The part of a codebase that the model sees, how it was found, and where the cause may be."""

import re
from typing import Final, Literal

from sandbox.frozen import Frozen

ISSUE_NUMBER: Final = re.compile(
    r"(?<![\w&#/])(?:#|GH-?|(?:issue|PR|pull request)[ -]#?"
    r"|:(?:issue|gh|ghissue|pr|pull|bug|ticket):`"
    r"|(?:https?://[\w.:-]+|github\.com)(?:/[\w.-]+){2}/(?:issues|pull|discussions)/)"
    r"(\d{1,7})\b`?",
    re.IGNORECASE,
)
"""`#12`, `GH-12`, `issue 12`, a role of Sphinx, or a URL; its group is the number."""
NUMBERED_FILE: Final = re.compile(r"(?:^|/)\d+\.(?!(?:md|rst|txt)$)[a-z_-]+(?:\.\w+)?$")
"""Such as towncrier's `1234.bugfix.rst`."""


class SourceFile(Frozen):
    """A file of the codebase as the model sees it."""

    path: str
    text: str
    tokens: int
    partial: bool = False
    """Whether `text` holds only parts of the file, with notes where lines are left out."""


class ShownFile(Frozen):
    """One file of a context, and why it is there."""

    path: str
    tokens: int
    partial: bool
    why: str
    """The scout's words, or what the file shares with the issue. Untrusted."""


class Findings(Frozen):
    """How a context was found."""

    way: Literal["scout", "words, then scout", "words"]
    """How the ranked files were found: the scout read every file; the scout read those that share
    the most words with the issue; or, without a scout, shared words alone decided."""
    files: int
    read: int
    """How many files the scout read, now or in an earlier run of the issue; 0 without a scout."""
    read_tokens: int
    """Tokens searched: all that the scout read, or all source without a scout."""
    unknown: int = 0
    """Files without a readable verdict of the scout: shown last if there is room."""
    listed: int = 0
    """How many files the solver was asked to rank; 0 where it was not asked, and in old records."""
    invented: int = 0
    """Paths in the solver's orders that were in no list, and were dropped."""
    meaning: str = ""
    """That the scout found no file relevant, in a sentence; else empty."""
    shown: tuple[ShownFile, ...] = ()

    @property
    def compression(self) -> float:
        """How many times fewer tokens are shown than were searched."""
        return self.read_tokens / max(1, sum(file.tokens for file in self.shown))


class SuspectFile(Frozen):
    """A file that an edit may have to change."""

    path: str
    why: str = ""
    """In the model's words. Untrusted."""


class Place(Frozen):
    """Lines that an edit may have to change, counted from 1."""

    path: str
    first: int
    last: int
    scope: str = ""
    """The headers of the classes and functions around the first line, a line each. Untrusted."""
    function: tuple[int, int] | None = None
    """First and last line of the innermost of these definitions; None outside of all."""
    code: str = ""
    """The lines themselves, the middle of many left out. Untrusted."""
    why: str = ""
    """In the model's words. Untrusted."""

    @property
    def lines(self) -> str:
        return f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"


class Located(Frozen):
    """One answer of the search."""

    files: tuple[SuspectFile, ...]
    places: tuple[Place, ...] = ()
    """Empty before the second stage, and where it found none."""
    files_score: float | None = None
    """The reward model's probability that the files are right; None without a score."""
    places_score: float | None = None


class SearchRecord(Frozen):
    """What a search found: from its answers, in turn, the edits start."""

    width: int
    """How many answers were asked for in each stage."""
    located: tuple[Located, ...] = ()
    """The answers that go on, best first; without scores, in the order of drawing."""
    notes: tuple[str, ...] = ()
    """Deviations from the normal course, in sentences. Untrusted."""


class Context(Frozen):
    """The files the model may see, most useful first, within the token budget."""

    files: tuple[SourceFile, ...]
    dropped: tuple[str, ...] = ()
    """Files that may matter but are left out: for lack of room, or as the ranking left them out."""
    unneeded: tuple[str, ...] = ()
    """Files that the ranking model was offered and left out."""
    scanned: int = 0
    """How many files were read to find these."""
    not_read: tuple[str, ...] = ()
    """How many files were left out unread, and why, in sentences."""
    findings: Findings | None = None
    numbered_entries: str = ""
    """If the models were told to add no changelog entry: the folder of its entries, whose names
    are issue numbers that are not known; else empty."""
    beside: tuple[str, ...] = ()
    """What the models were shown besides: the nearest test file, the maintainers' own words and the
    newest entries of the changelog."""
    search: SearchRecord | None = None
    """With the strategy `search`: where the cause is thought to be."""

    @property
    def without_room(self) -> tuple[str, ...]:
        """Those of `dropped` that no model took to be unneeded."""
        unneeded = frozenset(self.unneeded)
        return tuple(path for path in self.dropped if path not in unneeded)


class Habits(Frozen):
    """What a repository expects of an edit apart from the code: sentences for the model."""

    changelog: str = ""
    """Where changes are noted, and whether past commits did so, as a sentence; empty: nowhere."""
    newest: tuple[SourceFile, ...] = ()
    """The newest entries: the beginning of the changelog, or the newest files of its folder."""
    emptied: str = ""
    """The folder of such files of which only a template is left: towncrier's, named by number."""
    tests: str = ""
    """Whether past commits that change code also change tests, as a sentence."""
    words: tuple[SourceFile, ...] = ()
    """What the maintainers tell those who write edits, shortened."""
    nearest: SourceFile | None = None
    """The test file nearest to the most relevant files; None if it is among those shown."""

    @property
    def name_issues(self) -> bool:
        """Whether the newest entries name issues by number, in their text or their file's name."""
        return any(
            ISSUE_NUMBER.search(file.text) or NUMBERED_FILE.search(file.path)
            for file in self.newest
        )

    def forbids_entry(self, number: int | None) -> bool:
        """Whether an entry would bear the `number` of the issue, which is not known."""
        return number is None and bool(self.numbered_folder)

    @property
    def numbered_folder(self) -> str:
        """The folder of the entries if issue numbers are their files' names; else empty."""
        if self.emptied:
            return self.emptied
        if not self.newest or not all(NUMBERED_FILE.search(file.path) for file in self.newest):
            return ""
        return self.newest[0].path.rpartition("/")[0]
