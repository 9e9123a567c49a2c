"""The edits of a finished run for its page: edits × scripts by letter, with diffs and outputs."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bot.comments.evidence import ending_words
from bot.data.marks import NO_VERDICT, REPRODUCTION_TEST, Mark, mark_script, mark_test
from bot.safe_text import make_visible
from pipeline.data.suite_reports import Standing
from pipeline.data.types import NoFix, Reproduction, Selection, VoteTable
from pipeline.languages.registry import read_test_outcome
from pipeline.reproduction.red_green import advise_command
from pipeline.selection.verdict import get_votes, rank_result, to_letter
from prompts.text import drop_index_lines, pluralize, shorten
from sandbox.program import Execution

MAX_EDITS: Final = 20
MAX_SCRIPTS: Final = 30
OUTPUT_CHARACTERS: Final = 2_000
ALL_CHARACTERS: Final = 400_000
"""Of all diffs, scripts and outputs on one page; the bundle has the rest."""
LEFT_OUT: Final = "(left out: the page would be too long. The bundle has it.)"


class ScriptRun(NamedTuple):
    """One script with or without an edit; the output is untrusted."""

    name: str
    cell: Mark
    seconds: float
    output: str


class DiffLine(NamedTuple):
    """A line of a diff; untrusted."""

    kind: str
    """`add`, `del`, `hunk`, or empty."""
    text: str


class RunEdit(NamedTuple):
    """One edit as the page shows it; untrusted."""

    letter: str
    chosen: bool
    passed: str
    """What it passed and broke, in our words."""
    votes: int
    diff: tuple[DiffLine, ...]
    runs: tuple[ScriptRun, ...]
    reproduction: Mark
    broken: tuple[str, ...] | None
    """The repository's tests that it breaks; None if they did not run with it."""
    near: int | None = None
    """The number of nearby tests that it breaks; None if all tests ran."""
    maker: str = ""
    """The machine and model that wrote it; empty if unknown."""


class Script(NamedTuple):
    """One script, and its run on the unedited code; untrusted."""

    note: str
    """Why it has no vote; empty if it has one."""
    text: str
    base: ScriptRun


class ReproductionTest(NamedTuple):
    """The reproduction test before and after; untrusted."""

    path: str
    command: str
    before: ScriptRun
    after: ScriptRun


class EditTable(NamedTuple):
    scripts: tuple[Script, ...]
    votes: int
    """The number of scripts that pass without any edit."""
    edits: tuple[RunEdit, ...]
    more_scripts: int
    more_edits: int
    reproduction: ReproductionTest | None


class _Text:
    """Cuts untrusted text, and omits it once the page is full."""

    def __init__(self) -> None:
        self._left = ALL_CHARACTERS

    def cut(self, text: str, limit: int) -> str:
        # Shortened before, too: making all of a long text visible would take long.
        shown = shorten(make_visible(shorten(text, 2 * limit)), limit)
        if len(shown) > self._left:
            return LEFT_OUT
        self._left -= len(shown)
        return shown


def build_edit_table(result: Selection | NoFix) -> EditTable | None:
    """The edits of `result` by their letters, best first; None if the run judged none."""
    votes = get_votes(result)
    if votes is None:
        return None
    text, ranked = _Text(), rank_result(result)
    shown = ranked[:MAX_EDITS]
    texts = [drop_index_lines(votes.candidates[c].patch.diff) for c in shown]
    diffs = [_read_diff(text.cut(diff, 20_000)) for diff in texts]
    test = result.evidence.reproduction if isinstance(result, Selection) else None
    count = min(len(votes.tests), MAX_SCRIPTS)
    return EditTable(
        reproduction=_show_test(test, text) if test else None,
        votes=sum(run.passed for run in votes.base),
        scripts=tuple(_show_script(votes, t, text) for t in range(count)),
        edits=tuple(
            _show_edit(result, votes, c, rank, diffs[rank], text) for rank, c in enumerate(shown)
        ),
        more_scripts=len(votes.tests) - count,
        more_edits=len(ranked) - len(shown),
    )


def _show_edit(
    result: Selection | NoFix,
    votes: VoteTable,
    c: int,
    rank: int,
    diff: tuple[DiffLine, ...],
    text: _Text,
) -> RunEdit:
    proof = result.evidence if isinstance(result, Selection) else result.edits
    standings = proof.standings if proof else ()
    known = result.evidence.reproduced if isinstance(result, Selection) else ()
    broken = standings[c].broken if standings else None
    candidate = votes.candidates[c]
    cell = mark_test(known[c] if known else None)
    facts = (
        f"passes {votes.votes(c)} of {pluralize(len(votes.tests), 'script')}",
        f"the {REPRODUCTION_TEST} {cell.words}" if cell.kind else "",
        _describe_broken(standings[c]) if standings else "",
    )
    maker = ", ".join(filter(None, (candidate.machine, candidate.model)))
    return RunEdit(
        letter=to_letter(rank),
        chosen=isinstance(result, Selection) and candidate == result.candidate,
        passed="; ".join(filter(None, facts)),
        votes=votes.votes(c),
        diff=diff,
        runs=tuple(
            _show_run(f"Script {t + 1}", run, text)
            for t, run in enumerate(votes.runs[c][:MAX_SCRIPTS])
        ),
        reproduction=cell,
        broken=None if broken is None else tuple(make_visible(one[:300]) for one in broken[:50]),
        near=standings[c].near if standings else None,
        maker=make_visible(candidate.source or maker)[:120],
    )


def _describe_broken(standing: Standing) -> str:
    if standing.near is not None:
        return f"breaks {standing.near} of the repository's tests near it"
    if standing.broken is None:
        return ""
    return f"breaks {pluralize(len(standing.broken), 'test')} of the repository"


def _show_script(votes: VoteTable, t: int, text: _Text) -> Script:
    note = "no vote: it does not always end alike" if t in votes.flaky else ""
    if t in votes.self_serving:
        note = "no vote: only the edits that contain it pass it"
    return Script(
        note=note,
        text=text.cut(votes.tests[t].text, 3 * OUTPUT_CHARACTERS),
        base=_show_run(f"Script {t + 1}", votes.base[t], text),
    )


def _show_test(test: Reproduction, text: _Text) -> ReproductionTest:
    return ReproductionTest(
        path=make_visible(test.path[:300]),
        command=make_visible(advise_command(test)[:500]),
        before=_show_test_run(test, test.before, text),
        after=_show_test_run(test, test.after, text),
    )


def _show_run(name: str, run: Execution, text: _Text) -> ScriptRun:
    mark = mark_script(run)
    if mark == NO_VERDICT:
        mark = mark._replace(words=f"{mark.words}: {ending_words(run)}")
    return ScriptRun(name, mark, run.seconds, text.cut(run.output, OUTPUT_CHARACTERS))


def _show_test_run(test: Reproduction, run: Execution, text: _Text) -> ScriptRun:
    """A run of a test runner, whose exit codes differ from a script's."""
    return _show_run("", run, text)._replace(cell=mark_test(read_test_outcome(test.path, run)))


def _read_diff(diff: str) -> tuple[DiffLine, ...]:
    kinds: Sequence[tuple[str, str]] = (("+++", ""), ("---", ""), ("+", "add"), ("-", "del"),
                                        ("@@", "hunk"))  # fmt: skip
    return tuple(
        DiffLine(next((kind for start, kind in kinds if line.startswith(start)), ""), line)
        for line in diff.rstrip("\n").split("\n")
    )
