"""Control runs that must fail, under names that no edit can know; whose tests decide."""

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial

from pipeline.concurrency import gather_bounded
from pipeline.data.types import NOT_FIXED, Candidate, RejectedEdit, TestScript, VoteTable
from pipeline.edits.suspicious import find_suspicious
from pipeline.languages.registry import detect_conventions, main_language
from pipeline.resources import Workspace
from pipeline.selection.scoring.standings import voting_tests
from pipeline.store import digest, load_or_run
from sandbox.execution.jobs import NO_VERDICT
from sandbox.frozen import Frozen, replace


def find_self_serving(
    table: VoteTable, candidates: Sequence[Candidate], given: Sequence[TestScript]
) -> tuple[int, ...]:
    """Indices of tests that only edits from outside which bring them pass.

    `candidates`: all that took part at first, also those that are not in `table` any more. A test
    that is also among `given`, or that no edit passes, is not among them.
    """
    independent = {test.text for test in given}
    independent |= {c.test.text for c in candidates if c.test and not c.source}
    found: list[int] = []
    for number, test in enumerate(table.tests):
        own = {c.patch.diff for c in candidates if c.test == test}
        passing = {
            candidate.patch.diff
            for candidate, runs in zip(table.candidates, table.runs, strict=True)
            if runs[number].passed
        }
        if test.text not in independent and own and passing and passing <= own:
            found.append(number)
    return tuple(found)


def rests_on(table: VoteTable, given: Sequence[TestScript]) -> bool:
    """Whether one of the tests that vote is among `given`."""
    texts = {test.text for test in given}
    return any(table.tests[test].text in texts for test in voting_tests(table))


def tell_whose_tests(
    table: VoteTable, given: Sequence[TestScript], written: Sequence[TestScript]
) -> tuple[str, ...]:
    """Sentences: which tests decided, and which did not. Names in them are untrusted."""
    ours, theirs = {t.text for t in written}, {t.text for t in given}
    asked = by_us = 0
    sentences: list[str] = []
    for test in voting_tests(table):
        text = table.tests[test].text
        if text in ours:
            by_us += 1
        elif text in theirs:
            asked += 1
        else:
            sentences.append(f"{_name_owner(table, test)} includes a test that counts.")
    if asked or by_us:
        parts = [f"{asked} given with the request"] if asked else []
        parts += [f"{by_us} written by me"] if by_us else []
        sentences.insert(0, f"Independent tests that count: {', '.join(parts)}.")
    sentences += [
        f"{_name_owner(table, test)} includes a test that only the edit itself passes, so the test "
        "does not count."
        for test in table.self_serving
    ]
    return tuple(sentences)


def tell_uncontrolled(table: VoteTable) -> tuple[str, ...]:
    """A sentence where controls came to no verdict. Names in it are untrusted."""
    if not table.uncontrolled:
        return ()
    which = ", ".join(table.uncontrolled)
    return (f"No control came to a verdict with {which}: whether it forges results is not known.",)


def _name_owner(table: VoteTable, test: int) -> str:
    names = [c.name for c in table.candidates if c.test == table.tests[test]]
    return ", ".join(names) if names else "An excluded edit"


_CONCURRENCY = 4


class ControlResult(Frozen):
    """What the control runs said of one edit; under `controls/<digest>`."""

    problem: str = ""
    """Which control came out wrong, as a sentence; empty when none did."""
    shown: bool = True
    """Whether one of those that were made failed, as they must; true if none was made."""


class Controls:
    """Control runs with every edit. Each result is saved."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def reject_forgers(self, table: VoteTable) -> VoteTable:
        """`table` with the edits under which a control came out wrong among its `rejected`.

        Raises as `Sandbox.run`.
        """
        # Identical edits share a run, as in the table.
        asked: dict[str, int] = {}
        for c, candidate in enumerate(table.candidates):
            if candidate.source or candidate.patch.diff not in asked:
                asked[candidate.patch.diff] = c
        found = await gather_bounded(_CONCURRENCY, (self._check(table, c) for c in asked.values()))
        by_diff = dict(zip(asked, found, strict=True))
        results = [by_diff[candidate.patch.diff] for candidate in table.candidates]
        kept = [c for c, result in enumerate(results) if not result.problem]
        rejected = tuple(
            RejectedEdit(name=candidate.name, why=result.problem)
            for candidate, result in zip(table.candidates, results, strict=True)
            if result.problem
        )
        return replace(
            table,
            candidates=tuple(table.candidates[c] for c in kept),
            runs=tuple(table.runs[c] for c in kept),
            rejected=(*table.rejected, *rejected),
            uncontrolled=tuple(table.candidates[c].name for c in kept if not results[c].shown),
        )

    async def _check(self, table: VoteTable, at: int) -> ControlResult:
        """One script for our own edits; for those from outside, and those with words that can
        forge, also every script that passes."""
        candidate = table.candidates[at]
        passed = [
            test.text
            for test, run in zip(table.tests, table.runs[at], strict=True)
            if run.passed and (candidate.source or find_suspicious(candidate.patch.diff))
        ]
        texts = ["", *passed[:3]]
        key = f"controls/{digest(candidate.patch.diff, *texts)}"
        check = partial(self._run_all, candidate, texts)
        return await load_or_run(self._workspace.store, key, ControlResult, check)

    async def _run_all(self, candidate: Candidate, texts: Sequence[str]) -> ControlResult:
        diff, codebase = candidate.patch.diff, self._workspace.codebase
        language = main_language(codebase)
        if path := language.find_startup_file(diff):
            return ControlResult(
                problem=f"Its results do not count: it changes {path}, which {language.facts.name} "
                "runs before every script and test."
            )
        codes: list[int | None] = []
        for text in texts:
            words = "tests that were made to fail passed"
            control = await language.build_failing_script(text, secrets.token_hex(8))
            if not control:
                if text and await self._knows_expectation(text, diff):
                    return ControlResult(
                        problem="Its results do not count: a script passed that expects a value "
                        "which code can only read off the script."
                    )
                control = language.write_control_script(text, diff, secrets.token_hex(8))
                words = f"a control script that must exit with {NOT_FIXED} exited with 0"
            if control:
                codes.append(await self._run_control(control, diff))
                if codes[-1] == 0:
                    return ControlResult(problem=f"Its results do not count: {words}.")
        if candidate.source:  # the test suite of ours has a control (`regression.compare`)
            conventions = await detect_conventions(codebase)
            control = await asyncio.to_thread(
                language.write_failing_test, diff, conventions, codebase.files
            )
            if control:
                codes.append(await self._run_control(control, diff))
                if codes[-1] == 0:
                    words = "a control test that must fail passed"
                    return ControlResult(problem=f"Its results do not count: {words}.")
        return ControlResult(shown=not codes or NOT_FIXED in codes)

    async def _run_control(self, control: str, diff: str) -> int | None:
        """Its exit code with the edit; None where it shows nothing: it passes without it, too."""
        code = await self._run(control, diff)
        return None if code == 0 and await self._run(control, "") == 0 else code

    async def _knows_expectation(self, text: str, diff: str) -> bool:
        """Whether a result of the code equals a fresh value that the script expects: it passes, and
        does not where no result equals what is expected."""
        language = main_language(self._workspace.codebase)
        made = await language.change_expectations(text, secrets.token_hex(8))
        return (
            made is not None
            and await self._run(made[0], diff) == 0
            and await self._run(made[1], diff) != 0
        )

    async def _run(self, script: str, diff: str) -> int | None:
        """The exit code; 0 also where code ended with it before the script did."""
        run = await self._workspace.run_script(script, diff)
        return 0 if run.exit_code == 1 and NO_VERDICT in run.output else run.exit_code
