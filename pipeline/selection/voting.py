"""Runs every test on every candidate and on the unedited code (CodeMonkeys, section 2.3)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.codebase.unified_diff import parse_diff, remove_files
from pipeline.concurrency import gather_bounded
from pipeline.data.types import NOT_FIXED, Candidate, Patch, RejectedEdit, TestScript, VoteTable
from pipeline.edits.suspicious import is_irrelevant
from pipeline.languages.registry import main_language
from pipeline.resources import Workspace
from pipeline.store import digest, load_or_run
from prompts.text import shorten, strip_ansi
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen, replace
from sandbox.program import NO_ENV, Execution, repeat_environment

_MAX_OUTPUT_CHARACTERS = 4_000
"""Characters kept of each execution's output: a table holds up to ten thousand outputs."""
_CONCURRENCY = 8
"""Concurrent executions; the sandbox may allow fewer."""


class VoteRow(Frozen):
    """The results of all tests with one edit."""

    runs: tuple[Execution, ...]
    rejected: str = ""
    """Why the edit does not apply; then there are no runs."""


async def vote(
    candidates: Sequence[Candidate], workspace: Workspace, *, tests: Sequence[TestScript] = ()
) -> VoteTable:
    """Run all candidates against their tests and `tests` from other sources.

    Edits of the same code share a row and identical tests a column, unless `equal tests` are to
    count each; none is run twice. Every row is saved under `votes/<digest>` as soon as it is
    complete. Candidates without a usable test add no column. Edits that are empty or do not apply
    are not rows of the table but listed in its `rejected`.
    """
    own = [c.test for c in candidates if c.test]
    asked = [*own, *(test for test in tests if test not in own)]
    columns = tuple(dict.fromkeys(asked))
    counted = asked if "equal tests" in workspace.options.without else columns
    foreign = {c.patch.diff for c in candidates if c.source}
    rows: dict[str, VoteRow] = {}
    by_code: dict[str, VoteRow] = {}
    for diff in dict.fromkeys(["", *(c.patch.diff for c in candidates)]):
        # An edit from elsewhere is checked for applying even if there is no test.
        scripts = columns or ((TestScript(text=""),) if diff in foreign else ())
        code = diff if diff in foreign else _keep_code(diff)
        if code not in by_code or by_code[code].rejected:
            by_code[code] = await _load_or_run_row(diff, scripts, workspace)
        rows[diff] = by_code[code]
    why = {
        c: rows[c.patch.diff].rejected if c.patch.diff.strip() else "It changes nothing."
        for c in candidates
    }
    fit = tuple(c for c in candidates if not why[c])
    places = [columns.index(test) for test in counted]

    def pick(row: VoteRow) -> tuple[Execution, ...]:
        return tuple(row.runs[at] for at in places)

    return VoteTable(
        candidates=fit,
        tests=tuple(counted),
        base=pick(rows[""]),
        runs=tuple(pick(rows[c.patch.diff]) for c in fit),
        rejected=tuple(RejectedEdit(name=c.name, why=why[c]) for c in candidates if why[c]),
        script_suffix=main_language(workspace.codebase).script_suffix,
    )


def _keep_code(diff: str) -> str:
    """The part of `diff` on which a script's result can depend: without tests and documents; all of
    it where nothing else is changed."""
    beside = [f.path for f in parse_diff(diff) if is_irrelevant(f) and (f.old or "/" in f.path)]
    return remove_files(diff, frozenset(beside)) or diff


def earlier_revisions(
    table: VoteTable, revisions: Mapping[int, Sequence[Patch]]
) -> dict[int, tuple[Candidate, ...]]:
    """All successive edits of each candidate's sample, without tests.

    Pass `tests=table.tests` to `vote` on them: they get their own rows in the columns of `table`.
    """
    return {
        c.sample: tuple(Candidate(sample=c.sample, patch=p, test=None) for p in revisions[c.sample])
        for c in table.candidates
        if c.sample in revisions
    }


async def find_flaky_tests(
    table: VoteTable, tests: Sequence[int], workspace: Workspace
) -> tuple[int, ...]:
    """Find the flaky tests among `tests`: they end differently when run again on the same code.

    Each runs `Options.repeat_tests` more times on the unedited code, and as often on the best
    candidate that passes it. The executions are saved under `votes/again-<digest>`.
    """
    repeats = workspace.options.repeat_tests

    async def is_flaky(test: int) -> bool:
        script = table.tests[test]
        passing = next((c for c in table.order() if table.runs[c][test].passed), None)
        seen = [("", table.base[test])]
        if passing is not None:
            seen.append((table.candidates[passing].patch.diff, table.runs[passing][test]))
        for diff, first in seen:
            again = await _load_or_run_row(diff, [script] * repeats, workspace, repeated=True)
            if any(describe_outcome(run) != describe_outcome(first) for run in again.runs):
                return True
        return False

    if not repeats:
        return ()
    found = await gather_bounded(_CONCURRENCY, (is_flaky(test) for test in tests))
    return tuple(test for test, flaky in zip(tests, found, strict=True) if flaky)


def list_cases(run: Execution) -> tuple[str, ...]:
    """What a script printed of each case that it tried, as a checklist's script does. Untrusted."""
    lines = (line.strip() for line in run.output.splitlines())
    return tuple(line for line in lines if line.startswith("case: "))


def list_case_tests(table: VoteTable) -> list[int]:
    """The tests that print what they see of each case."""
    runs = (table.base, *table.runs)
    return [t for t in range(len(table.tests)) if any(list_cases(row[t]) for row in runs)]


def describe_outcome(run: Execution) -> tuple[str, ...]:
    """What two runs must share for a script to have ended with both in the same way."""
    return run_outcome(run), *list_cases(run)


def run_outcome(run: Execution) -> str:
    """How a script ended, in the protocol's outcomes."""
    if run.exit_code in (0, NOT_FIXED):
        return str(run.exit_code)
    return "broken" if run.exit_code is not None else run.ending.value


def reproducing_tests(table: VoteTable) -> list[int]:
    """The tests that report the issue on the unedited code, without self-serving ones."""
    return [
        t
        for t, run in enumerate(table.base)
        if run.exit_code == NOT_FIXED and t not in table.self_serving
    ]


def suspect_files(table: VoteTable) -> tuple[str, ...]:
    """The files that the candidates change, most often changed first."""
    paths = Counter(
        path
        for candidate in table.candidates
        for path in {
            file.path for file in parse_diff(candidate.patch.diff) if not is_irrelevant(file)
        }
    )
    return tuple(sorted(paths, key=lambda path: (-paths[path], path)))


async def _load_or_run_row(
    diff: str, tests: Sequence[TestScript], workspace: Workspace, *, repeated: bool = False
) -> VoteRow:
    """Load or run the tests with `diff`; `repeated`: each test repeats an earlier run."""
    texts = [test.text for test in tests]
    key = f"votes/{'again-' if repeated else ''}{digest(diff, *texts)}"
    envs = [repeat_environment(n + 1) if repeated else NO_ENV for n in range(len(tests))]

    async def execute(script: str, env: Mapping[str, str]) -> Execution:
        run = await workspace.run_script(script, diff, env=env)
        return replace(run, output=shorten(strip_ansi(run.output), _MAX_OUTPUT_CHARACTERS))

    async def execute_all() -> VoteRow:
        try:
            runs = await gather_bounded(_CONCURRENCY, map(execute, texts, envs))
        except PatchRejected as rejected:
            why = shorten(str(rejected), _MAX_OUTPUT_CHARACTERS)
            return VoteRow(runs=(), rejected=why or "It does not apply.")
        return VoteRow(runs=tuple(runs))

    return await load_or_run(workspace.store, key, VoteRow, execute_all)


def is_good_enough(table: VoteTable, candidate: int) -> bool:
    """Whether a run that hit a ceiling may end with this edit rather than out of budget.

    Its own script reports the issue on the unedited code and passes with the edit, and so do more
    than half of all scripts that report the issue. `Judge` checks that every chosen edit breaks
    none of the repository's tests, and `ReproductionStep` that a test of the repository fails
    without it and passes with it.
    """
    tests = reproducing_tests(table)
    own = table.candidates[candidate].test
    if own is None or own not in table.tests:
        return False
    t = table.tests.index(own)
    passed = [test for test in tests if table.runs[candidate][test].passed]
    return t in passed and 2 * len(passed) > len(tests)
