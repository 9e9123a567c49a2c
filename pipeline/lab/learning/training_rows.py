"""Training rows, exactly as served; splits by repository and time."""

import hashlib
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

from pipeline.codebase.unified_diff import FileDiff, Hunk, parse_diff
from pipeline.data.code_places import Located, Place, SuspectFile
from pipeline.data.types import Issue
from pipeline.lab.learning.records import (
    AnswerLevel,
    Attempt,
    JudgedAnswer,
    ReplyRow,
    SolvedIssue,
)
from pipeline.localisation.process_reward import render_judgement
from pipeline.localisation.stages import LONGEST_CODE
from pipeline.models.base import Message
from pipeline.models.metering import BAD, GOOD
from pipeline.selection.ties import render_verdict
from prompts.templates import render
from prompts.text import shorten
from sandbox.frozen import Frozen

NEAR = 3
"""Lines around a change that belong to its place, as in a diff's context."""
LONGEST_PLACE = 100
"""Lines of a place that a search may name: more is a file, not a place."""
SHINGLE = 5
"""Words in a row that are compared."""
_WORD = re.compile(r"\w+|[^\w\s]")


class ChangedLines(Frozen):
    """A region of one file, in the numbers of the unedited code."""

    path: str
    first: int
    last: int
    heading: str
    """The enclosing definition, where the diff names it."""
    code: str
    """The lines before the edit, with their context."""


def list_changed_files(diff: str) -> frozenset[str]:
    """The files that `diff` changes, by their names before it; new ones by their new names."""
    return frozenset(file.old or file.path for file in parse_diff(diff))


def list_places(diff: str) -> list[ChangedLines]:
    """The regions that `diff` changes, in its order."""
    return [place for file in parse_diff(diff) for place in _places_of(file)]


def _places_of(file: FileDiff) -> Iterator[ChangedLines]:
    path = file.old or file.path
    if not file.hunks:
        yield ChangedLines(path=path, first=0, last=0, heading="", code="")
    for hunk in file.hunks:
        first, last = _find_changed_range(hunk)
        code = "\n".join(text for marker, text in hunk.lines if marker != "+")
        yield ChangedLines(path=path, first=first, last=last, heading=hunk.heading, code=code)


def _find_changed_range(hunk: Hunk) -> tuple[int, int]:
    """The first and last old line that the hunk changes, without its context."""
    at, touched = hunk.start, list[int]()
    for marker, _ in hunk.lines:
        if marker != " ":
            touched.append(at)
        at += marker != "+"
    return (touched[0], max(touched)) if touched else (hunk.start, hunk.start)


def hits_places(diff: str, reference: str) -> bool:
    """Whether `diff` changes something at every place that `reference` changes.

    Two changes are at one place if they are at most `NEAR` lines apart, or in one named definition.
    """
    return _hit_all(list_places(diff), list_places(reference))


def names_files(paths: Iterable[str], reference: str) -> bool:
    """Whether `paths` hold every file that `reference` changes, new ones left out, and at most as
    many others: who names everything has found nothing."""
    changed = {file.old for file in parse_diff(reference) if file.old}
    named = set(paths)
    return bool(changed) and changed <= named and len(named) <= 2 * len(changed)


def names_places(places: Iterable[Place], reference: str) -> bool:
    """Whether one of `places` is at every place that `reference` changes, new files left out, and
    at least half of them are at one. A place longer than `LONGEST_PLACE` is at none."""
    ours = [
        ChangedLines(path=one.path, first=one.first, last=one.last, heading="", code="")
        for one in places
    ]
    theirs = [one for file in parse_diff(reference) if file.old for one in _places_of(file)]
    near = [
        one
        for one in ours
        if one.last - one.first < LONGEST_PLACE and any(_same_place(one, other) for other in theirs)
    ]
    return 2 * len(near) >= len(ours) and _hit_all(near, theirs)


def _hit_all(ours: Sequence[ChangedLines], theirs: Sequence[ChangedLines]) -> bool:
    return bool(theirs) and all(any(_same_place(one, other) for one in ours) for other in theirs)


def _same_place(one: ChangedLines, other: ChangedLines) -> bool:
    if one.path != other.path:
        return False
    if one.heading and one.heading == other.heading:
        return True
    return one.first <= other.last + NEAR and other.first <= one.last + NEAR


def shingle_text(text: str) -> frozenset[int]:
    """The runs of `SHINGLE` words of `text`, as hashes; of a shorter text, the whole."""
    words = _WORD.findall(text.lower())
    if not words:
        return frozenset()
    ends = range(max(1, len(words) - SHINGLE + 1))
    return frozenset(hash(tuple(words[at : at + SHINGLE])) for at in ends)


def shingle_diff(diff: str) -> frozenset[int]:
    """The runs of words in the lines that `diff` changes, marked as removed or added."""
    return shingle_text("\n".join(_list_changed_lines(parse_diff(diff))))


def _list_changed_lines(files: Iterable[FileDiff]) -> Iterator[str]:
    for file in files:
        for hunk in file.hunks:
            yield from (
                f"{'added' if marker == '+' else 'removed'} {text}"
                for marker, text in hunk.lines
                if marker != " " and text.strip()
            )


def similarity(one: frozenset[int], other: frozenset[int]) -> float:
    """The Jaccard index of two sets of shingles, 0 to 1; 0 if both are empty."""
    both = len(one | other)
    return len(one & other) / both if both else 0.0


def render_step(
    issue: Issue, files: Sequence[str], places: Sequence[ChangedLines]
) -> tuple[str, str]:
    """System text and question about the files of an edit, or its places if there are any."""
    found = Located(
        files=tuple(SuspectFile(path=path) for path in files),
        places=tuple(
            Place(
                path=place.path,
                first=place.first,
                last=place.last,
                scope=place.heading,
                code=shorten(place.code, LONGEST_CODE),
            )
            for place in places
        ),
    )
    return render_judgement(issue, found)


Split = Literal["train", "test"]


class ChatMessage(Frozen):
    """A message in the form of chat templates."""

    role: Literal["system", "user", "assistant"]
    content: str


class PolicyRow(Frozen):
    """A conversation whose replies are to be imitated (SFT)."""

    issue: str
    split: Split
    stage: str
    prompt: tuple[ChatMessage, ...]
    completion: tuple[ChatMessage, ...]
    """From the first reply to the last; what was said between them is not learnt."""
    masked: tuple[int, ...] = ()
    """The replies in `completion` that are not learnt either, such as malformed ones."""


class ProcessRow(Frozen):
    """A result with its verdict, `+` or `-`: files and places (SWE-Reasoner, equation 3), and whole
    edits with what their samples left."""

    issue: str
    split: Split
    level: AnswerLevel
    source: str
    prompt: tuple[ChatMessage, ...]
    completion: tuple[ChatMessage, ...]


class OutcomeRow(Frozen):
    """A right and a wrong edit of one issue (DPO; SWE-Reasoner, equation 4)."""

    issue: str
    split: Split
    prompt: tuple[ChatMessage, ...]
    chosen: tuple[ChatMessage, ...]
    rejected: tuple[ChatMessage, ...]


def policy_rows(issue: str, split: Split, replies: Iterable[ReplyRow]) -> Iterator[PolicyRow]:
    """Rows of SFT: thinking and answer are wanted.

    Replies of one conversation are one row as long as each was asked with the answers before it.
    After a reply with a thought, which is not sent again, a new row begins (equation 2).
    """
    joined: list[ReplyRow] = []
    for reply in replies:
        if joined and not _continues(joined[-1], reply):
            yield _join_replies(issue, split, joined)
            joined = []
        joined.append(reply)
    if joined:
        yield _join_replies(issue, split, joined)


def _continues(one: ReplyRow, other: ReplyRow) -> bool:
    sent = (*one.messages, Message(role="assistant", text=one.answer))
    begins = other.system == one.system and other.messages[: len(sent)] == sent
    return begins and not one.thinking.strip()


def _join_replies(issue: str, split: Split, replies: Sequence[ReplyRow]) -> PolicyRow:
    first, last = replies[0], replies[-1]
    begun = len(first.messages)
    thought = f"<think>\n{last.thinking.strip()}\n</think>\n\n" if last.thinking.strip() else ""
    said = [ChatMessage(role=one.role, content=one.text) for one in last.messages]
    learnt = {len(reply.messages) - begun for reply in replies}
    return PolicyRow(
        issue=issue,
        split=split,
        stage=last.stage,
        prompt=(ChatMessage(role="system", content=first.system), *said[:begun]),
        completion=(*said[begun:], ChatMessage(role="assistant", content=thought + last.answer)),
        masked=tuple(
            at
            for at, one in enumerate(said[begun:])
            if one.role == "assistant" and at not in learnt
        ),
    )


def process_rows(
    issue: SolvedIssue,
    split: Split,
    source: str,
    diff: str,
    *,
    files: bool,
    places: bool,
    right: bool | None = None,
    summary: str = "",
) -> list[ProcessRow]:
    """The files and the places of an edit, and itself with the `summary` of its sample, each with
    whether they are right; without the last where that is not known."""
    changed = list_places(diff)
    if not changed:
        return []
    paths = sorted(list_changed_files(diff))
    levels: list[tuple[AnswerLevel, bool]] = [("files", files), ("places", places)]
    found: list[ProcessRow] = []
    for level, is_right in levels:
        system, question = render_step(issue.issue, paths, changed if level == "places" else ())
        answer = JudgedAnswer(level=level, system=system, question=question, right=is_right)
        found.append(render_judged_row(issue.id, split, source, answer))
    if right is not None:
        system, question = render_verdict(issue.issue, diff, summary)
        answer = JudgedAnswer(level="edits", system=system, question=question, right=right)
        found.append(render_judged_row(issue.id, split, source, answer))
    return found


def label_edits(attempts: Iterable[Attempt]) -> dict[str, bool]:
    """By diff, whether a benchmark's tests or people call it right: the labels of a verifier.

    What the attempt's own script says is no label, since the verifier reads it. Where labels of
    one edit differ, as by a flaky test, or where people changed it, it has none.
    """
    told: dict[str, set[bool]] = defaultdict(set)
    for one in attempts:
        if one.diff and one.resolved is not None and one.outcome != "changed":
            told[one.diff].add(one.resolved)
    return {diff: True in labels for diff, labels in told.items() if len(labels) == 1}


def render_judged_row(issue: str, split: Split, source: str, answer: JudgedAnswer) -> ProcessRow:
    """A question of a process reward model with the verdict that is wanted."""
    return ProcessRow(
        issue=issue,
        split=split,
        level=answer.level,
        source=source,
        prompt=(
            ChatMessage(role="system", content=answer.system),
            ChatMessage(role="user", content=answer.question),
        ),
        completion=_answer(GOOD if answer.right else BAD),
    )


def outcome_rows(
    issue: SolvedIssue, split: Split, right: Sequence[str], wrong: Sequence[str]
) -> list[OutcomeRow]:
    """Pairs of right and wrong edits: each right edit with the wrong one nearest in length.

    DPO's reward is a sum over tokens, so pairs of unlike lengths would teach length. Each edit
    is in one pair at most.
    """
    found: list[OutcomeRow] = []
    left = sorted(set(wrong))
    for chosen in sorted(set(right)):
        if not left:
            break
        rejected = min(left, key=lambda diff: (abs(len(diff) - len(chosen)), diff))
        left.remove(rejected)
        found.append(
            OutcomeRow(
                issue=issue.id,
                split=split,
                prompt=outcome_prompt(issue.issue),
                chosen=_answer(chosen),
                rejected=_answer(rejected),
            )
        )
    return found


def outcome_prompt(issue: Issue) -> tuple[ChatMessage, ...]:
    """What the implicit reward asks (`pipeline.selection.ties.ImplicitReward`)."""
    return (ChatMessage(role="user", content=render("orm/issue", issue=issue)),)


def _answer(text: str) -> tuple[ChatMessage, ...]:
    return (ChatMessage(role="assistant", content=text),)


DUPLICATE = 0.8
"""From this similarity on, two issues or two edits are near duplicates."""
_COMMON = 300
"""A shingle in more texts than that, such as a licence's, does not distinguish them."""


@dataclass
class SplitIssues:
    """Which issue is on which side, and why some are on none."""

    sides: dict[str, Split] = field(default_factory=dict[str, Split])
    left_out: Counter[str] = field(default_factory=Counter[str])
    until: str = ""
    """Training ends before this time, and the test begins with it."""
    one_repository: bool = False
    """Whether all issues are of one repository, so that time alone keeps the sides apart."""


NEVER = "never"


def repository_key(repository: str) -> str:
    """The same for a repository and its forks."""
    return repository.rpartition("/")[2].lower()


_BENCHMARKED = {
    repository_key(name): tuple(f"{folder}/" for folder in folders)
    for name, *folders in map(
        str.split,
        (resources.files("pipeline.lab.learning") / "benchmarked.txt")
        .read_text("utf-8")
        .splitlines(),
    )
}
"""The repositories of SWE-bench, which the paper leaves out, and where their packages lie."""
_PACKAGES = tuple(folder for folders in _BENCHMARKED.values() for folder in folders)


def is_benchmarked(repository: str, edit: str = "") -> bool:
    """Whether it is one of SWE-bench's, or a fork of one by its name or by the package that an
    `edit` there changes: who learns from it cannot be measured there."""
    changed = list_changed_files(edit) if edit else ()
    is_package = any(path.startswith(_PACKAGES) for path in changed)
    return repository_key(repository) in _BENCHMARKED or is_package


def split_issues(issues: Collection[SolvedIssue], until: str = "") -> SplitIssues:
    """Split issues by repository and time.

    A fifth of the repositories, chosen by their names' digests, is kept apart. Issues of the others
    closed from `until` on, and issues of those closed before, are left out. The default is the
    median date of the repositories kept apart; undated issues count for training only. With
    `NEVER`, repositories alone part them: twice as many issues, and no word on newer ones.

    A single repository is split by time alone; the default keeps its newest fifth apart.
    """
    keys = {repository_key(one.repository) for one in issues}
    found = SplitIssues(one_repository=len(keys) == 1)
    apart = keys if found.one_repository else _choose_test_repositories(keys)
    dates = sorted(
        one.closed for one in issues if one.closed and repository_key(one.repository) in apart
    )
    middle = 4 * len(dates) // 5 if found.one_repository else len(dates) // 2
    found.until = until or (dates[middle] if dates else "")
    for one in issues:
        late = bool(one.closed and found.until and one.closed >= found.until)
        if found.until == NEVER and not found.one_repository:
            found.sides[one.id] = "test" if repository_key(one.repository) in apart else "train"
        elif repository_key(one.repository) in apart and late:
            found.sides[one.id] = "test"
        elif repository_key(one.repository) in apart and not found.one_repository:
            found.left_out["test repository, before the date"] += 1
        elif late:
            found.left_out["training repository, from the date on"] += 1
        else:
            found.sides[one.id] = "train"
    return found


def _choose_test_repositories(keys: Iterable[str]) -> frozenset[str]:
    ordered = sorted(keys, key=lambda key: hashlib.sha256(key.encode()).hexdigest())
    if len(ordered) < 2:
        return frozenset()
    return frozenset(ordered[: max(1, round(0.2 * len(ordered)))])


class NearDuplicates:
    """Texts of the test, to find those of training that are nearly one of them.

    Two sets as similar as `DUPLICATE` share one of the first few of their elements in any one order
    (prefix filtering: Bayardo, Ma and Srikant 2007), so only those are looked up.
    """

    def __init__(self) -> None:
        self._equal: set[int] = set()
        self._texts: list[array[int]] = []
        self._index: dict[int, list[int]] = defaultdict(list)

    def add(self, words: frozenset[int]) -> None:
        """Add a text, by its shingles."""
        if not words or hash(words) in self._equal:
            return
        self._equal.add(hash(words))
        for word in _find_prefix(words):
            self._index[word].append(len(self._texts))
        self._texts.append(array("q", words))

    def has(self, words: frozenset[int]) -> bool:
        """Whether some text is nearly this one."""
        if hash(words) in self._equal:
            return bool(words)
        # Shorter texts are duplicates only if they are equal: `return None` is in many edits.
        if len(words) < 4:
            return False
        numbers = {
            number
            for word in _find_prefix(words)
            if len(known := self._index.get(word, ())) <= _COMMON
            for number in known
        }
        return any(
            DUPLICATE * len(words) <= len(text) <= len(words) / DUPLICATE
            and similarity(words, frozenset(text)) >= DUPLICATE
            for text in map(self._texts.__getitem__, numbers)
        )


def _find_prefix(words: frozenset[int]) -> list[int]:
    return sorted(words)[: len(words) - math.ceil(DUPLICATE * len(words)) + 1]


class KeptApart:
    """What the test holds: repositories and their forks, issues, and edits for them."""

    def __init__(self) -> None:
        self.repositories: set[str] = set()
        self._issues, self._edits = NearDuplicates(), NearDuplicates()

    def add(self, issue: SolvedIssue) -> None:
        self.repositories.add(repository_key(issue.repository))
        self._issues.add(_shingle_issue(issue))
        self.add_edit(issue.reference)

    def add_edit(self, diff: str) -> None:
        self._edits.add(shingle_diff(diff))

    def resembles(self, issue: SolvedIssue) -> bool:
        """Whether the issue of training, or the developers' edit, is nearly one of the test's."""
        return self._issues.has(_shingle_issue(issue)) or self.resembles_edit(issue.reference)

    def resembles_edit(self, diff: str) -> bool:
        return self._edits.has(shingle_diff(diff))


def _shingle_issue(issue: SolvedIssue) -> frozenset[int]:
    return shingle_text(f"{issue.title}\n{issue.body}")
