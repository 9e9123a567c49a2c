"""What a model sees of the edits it chooses between, and why others are missing."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.data.code_places import SourceFile
from pipeline.data.types import ChecklistPoint, VoteTable
from pipeline.reasons import count_near, describe_cut
from pipeline.replies import Malformed
from pipeline.selection.methods import behaving_alike
from pipeline.selection.scoring.standings import Standings
from pipeline.selection.verdict import SavedSuiteReport, assign_letters
from prompts.text import agree, join_names

_MAX_NAMED = 5


class DecidingScript(NamedTuple):
    """A script on which two candidates differ, and how it ended with each: `A fails; B passes`."""

    text: str
    ends: str
    opinion: bool = False
    """Whether it is only what a first opinion on the same two saw: it decided nothing yet."""


@dataclass(frozen=True)
class Finalists:
    """The candidates that a model chooses between, with the material it sees."""

    table: VoteTable
    indices: Sequence[int]
    """Candidates of `table`, best first."""
    letters: Sequence[str]
    """Their names, parallel to `indices`."""
    files: Sequence[SourceFile] = ()
    """The files that these candidates change, in their unedited state."""
    suite: Sequence[str] = ()
    """Results of the repository's own tests, a sentence each, parallel to `indices`; empty: no
    result."""
    missing: Sequence[str] = ()
    """Why other candidates are missing, a sentence each. Untrusted."""
    checklist: Sequence[ChecklistPoint] = ()
    decided: Sequence[DecidingScript] = ()
    """What decided between the pairs before this one."""

    def parse_choice(self, body: str) -> int | Malformed:
        """The index into `indices` that a `<choice>` names: by a letter, or by a number from 1."""
        name = body.strip().lower().removeprefix("candidate").strip(" #.").upper()
        if name in self.letters:
            return list(self.letters).index(name)
        if name in map(str, range(1, len(self.indices) + 1)):
            return int(name) - 1
        return Malformed(
            f"There is no candidate {name[:40]!r}: answer with one of "
            f"{', '.join(self.letters)} inside <choice>."
        )


def describe_finalists(
    standings: Standings,
    pool: Sequence[int],
    ranked: Sequence[int],
    reports: Mapping[str, SavedSuiteReport],
    files: Sequence[SourceFile],
) -> Finalists:
    """The candidates of `pool`, lettered in this order before those of `ranked`.

    `reports` are the results of the repository's own tests, by diff.
    """
    table = standings.table
    letters = assign_letters(table, (*pool, *ranked))
    saved = [reports.get(table.candidates[c].patch.diff) for c in pool]
    suite = _suite_sentences(saved, [letters[c] for c in pool]) if any(saved) else [""] * len(pool)
    shown = {letters[c] for c in pool}
    brought = [_describe_brought(standings, c, letters, shown) for c in pool]
    suite = [" ".join(filter(None, both)) for both in zip(suite, brought, strict=True)]
    return Finalists(
        table=table,
        indices=pool,
        letters=[letters[c] for c in pool],
        files=files,
        suite=suite if any(suite) else (),
        missing=_missing_sentences(standings, pool, letters),
    )


def _suite_sentences(saved: Sequence[SavedSuiteReport | None], letters: Sequence[str]) -> list[str]:
    """`letters` name the edits of `saved`."""
    counts = {
        letter: len(one.report.before.passed)
        for one, letter in zip(saved, letters, strict=True)
        if one and one.report and not one.report.is_near
    }
    return [_suite_sentence(one, counts) for one in saved]


def _suite_sentence(saved: SavedSuiteReport | None, counts: Mapping[str, int]) -> str:
    """`counts`: by edit with which not only the tests near it ran, how many tests these were."""
    if saved is None:
        return "The repository's own tests were not run with it."
    report = saved.report
    if report is None:
        return f"The repository's own tests could not be run with it. {saved.problem}".rstrip()
    broken = report.broken
    if report.is_near:
        named = f"It breaks {_some(broken)}." if broken else ""
        more = [at for at, count in counts.items() if count > len(report.before.passed)]
        only = (
            f"More of the repository's tests were run with {join_names(more)} only." if more else ""
        )
        return " ".join(filter(None, (count_near(report), named, describe_cut(report), only)))
    text = f"Of the repository's own tests that were run, {len(report.passed_after)} pass"
    which = f"{len(broken)}: {_some(broken)}" if broken else "none"
    # How far the run without an edit came does not tell edits apart.
    cut = describe_cut(report) if report.after.cut else ""
    return f"{text} with it, and it breaks {which}. {cut}".rstrip()


def _describe_brought(
    standings: Standings, candidate: int, letters: Sequence[str], shown: Container[str]
) -> str:
    """Which tests that other edits bring do not pass with this one."""
    sentences: list[str] = []
    for one in standings.entries[candidate].fails:
        count, by = len(one.tests), letters[one.by]
        author = by if by in shown else "an edit that is not shown here"
        sentences.append(
            f"With it, {_some(one.tests)} {agree(count, 'fails', 'fail')}: {author} brings "
            f"{agree(count, 'this test', 'these tests')}."
        )
    return " ".join([*sentences, "Such a test may ask for more than the issue."] * bool(sentences))


def _missing_sentences(
    standings: Standings, pool: Sequence[int], letters: Sequence[str]
) -> list[str]:
    table = standings.table
    shown = {letters[c] for c in pool}
    why: dict[str, str] = {}
    for c, letter in enumerate(letters):
        if letter not in shown and letter not in why:
            why[letter] = f"{letter} {_why_missing(standings, c, pool, letters)}."
    by_sample = dict(zip((c.sample for c in table.candidates), letters, strict=True))
    faults = [
        f"Who wrote another edit said of {name if name in shown else 'one not shown'}: {one.fault}"
        for one in table.candidates
        if one.fault and (name := by_sample.get(one.fault_of, ""))
    ]
    rejected = [one.sentence for one in table.rejected]
    return [*faults, *(why[letter] for letter in sorted(why)), *rejected][:10]


def _why_missing(
    standings: Standings, candidate: int, pool: Sequence[int], letters: Sequence[str]
) -> str:
    standing = standings.entries[candidate]
    if standings.breaks(candidate):
        return f"breaks tests of the repository: {_some(standings.broken_by(candidate))}"
    if not standings.reproduces(candidate):
        return "passes none of the scripts that report the issue"
    for c in pool:
        if standings.entries[c].same_as == standing.same_as:
            return f"makes the same change to the code as {letters[c]}"
    alike = behaving_alike(standings, candidate)
    for c in pool:
        if c in alike:
            return f"behaves as {letters[c]} does in all that ran with both"
    return "has less evidence for it than these"


def _some(names: Sequence[str]) -> str:
    return join_names([name[:200] for name in names], _MAX_NAMED)
