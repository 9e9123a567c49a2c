"""What we remember of our open pull requests."""

import re
from textwrap import fill, shorten
from typing import Final, Self

from pydantic import Field

from bot.data.github_facts import CoAuthor, Identity
from bot.data.run import Login, RepoRef, RunId
from pipeline.data.types import CommitSha, Issue
from sandbox.frozen import Frozen, replace

SIGN_OFF: Final = "sign-off"
CO_AUTHOR: Final = "co-author"
LINE_WIDTH: Final = 72
"""Of each line of a message: what commitlint and gitlint ask for by default is longer.
https://git-scm.com/docs/git-commit#_discussion"""
CONVENTIONAL = re.compile(
    r"(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\([^)\n]{1,40}\))?!?: \S"
)


class CommitStyle(Frozen):
    """How our commits follow those of the repository."""

    signed_off: bool = False
    names_co_author: bool = True
    conventional: bool = False
    ticket: str = ""
    """What each title begins with, such as `ABC-123: `."""

    def with_settings(self, commits: tuple[str, ...] | None) -> Self:
        """As the key `commits` says, where it is set."""
        if commits is None:
            return self
        prefixes = [f"{text.rstrip()} " for text in commits if text not in (SIGN_OFF, CO_AUTHOR)]
        return replace(
            self,
            signed_off=SIGN_OFF in commits,
            names_co_author=CO_AUTHOR in commits,
            ticket=prefixes[0] if prefixes else self.ticket,
        )

    def format_title(self, kind: str, title: str) -> str:
        """`title`, or `kind: title` where titles are conventional; a model's own prefix stays."""
        title = title.removeprefix(self.ticket)
        if not self.conventional or CONVENTIONAL.match(title):
            return f"{self.ticket}{title}"
        word = title.split(" ", 1)[0]
        if word.isalpha() and word[1:].islower():  # neither a name nor an acronym
            title = f"{title[:1].lower()}{title[1:]}"
        return f"{self.ticket}{kind}: {title}"

    def format_message(self, title: str, body: str, identity: Identity, co_author: CoAuthor) -> str:
        trailers: list[str] = []
        if self.names_co_author:
            trailers.append(f"Co-authored-by: {co_author.login} <{co_author.email}>")
        if self.signed_off:
            trailers.append(f"Signed-off-by: {identity.login} <{identity.email}>")
        wrapped = "\n".join(
            fill(line, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
            for line in body.splitlines()
        )
        subject = shorten(title, LINE_WIDTH, placeholder=" …")
        whole = fill(title, LINE_WIDTH) if subject != title else ""
        parts = [subject, whole, wrapped, "\n".join(trailers)]
        return "\n\n".join(part for part in parts if part) + "\n"


class PullRecord(Frozen):
    """One of our pull requests. Only the holder of the lease of a run on it writes it."""

    repo: RepoRef
    pull: int
    issue: int
    source_issue: Issue
    """The text of that issue when the fix was requested. Untrusted."""
    asked_by: Login
    commit_style: CommitStyle = CommitStyle()
    branch: str
    base: CommitSha
    """Full SHA that our commits stand on."""
    base_branch: str
    """The branch that it goes into; a person may change it on GitHub."""
    head: CommitSha
    """Full SHA that we last pushed to the branch; another one there is a person's."""
    pending_head: CommitSha = CommitSha("")
    """Full SHA that a worker was about to push; empty when the push is done."""
    test_path: str
    """Path of the reproduction test; empty when none is committed."""
    test_files: tuple[str, ...] = ()
    """All files that the test's commit changes."""
    proven: bool = True
    """False: the pull request stays a draft, and the command runs the script."""
    command: tuple[str, ...]
    """The command that runs the reproduction test; empty where somebody took an edit without
    it."""
    ready_when_green: bool = False
    """It is a draft until the repository's own checks pass."""
    readied: bool = False
    """We marked it as ready; it is a draft again when a check fails later."""
    required_checks: tuple[str, ...] = ()
    """What the base branch required when the head `required_at` was looked at."""
    required_at: CommitSha = CommitSha("")
    handed_over: bool = False
    """A person pushed to the branch: it is theirs, and we push no more."""
    verified: str = ""
    """The base and head that the evidence was last gathered on."""
    evidence_confirmed: bool = False
    """Whether that verification confirmed the evidence."""
    unresolved_head: CommitSha = CommitSha("")
    """The head whose conflict with the base could not be resolved."""
    paused_on: str = ""
    """The day (UTC, ISO 8601) whose ceiling was reached: no follow-up until the next."""
    answered_ids: tuple[str, ...] = Field(default=())
    """Ids of what people wrote that needs no answer any more; the latest `MAX_ANSWERED`."""

    @property
    def evidence_files(self) -> tuple[str, ...]:
        """The files that none of our later commits may change: the reproduction test's."""
        return self.test_files or tuple(filter(None, (self.test_path,)))

    def is_ours(self, sha: CommitSha) -> bool:
        """Whether a head of the branch is what we pushed, or were about to."""
        return sha in (self.head, self.pending_head)


class BranchState(Frozen):
    head: CommitSha
    candidate: int
    """The rank of the edit, from 1: 1 is A, the one that was chosen, 2 is B."""
    run: RunId
