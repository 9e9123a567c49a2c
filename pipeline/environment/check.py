"""Whether an environment works, cheapest test first.

Everything runs in the sealed sandbox on the unedited code. The results are saved with the image, so
that neither a restarted run nor another run on the same image repeats the work.
"""

import asyncio
import json
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

from pipeline.codebase.commit import Codebase, File
from pipeline.data.options import Options
from pipeline.environment.ground import Ground, survey
from pipeline.environment.health import (
    LONGEST_ERROR,
    MOST_NAMED,
    Health,
    ImportedPackage,
    count_kinds,
    find_commonest_error,
)
from pipeline.environment.record import find_cause
from pipeline.languages.described import LEFT_OUT
from pipeline.languages.language import Collected
from pipeline.languages.registry import find_error, main_language
from pipeline.languages.test_command import TestCommand
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.near_tests import find_startable
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.store import Store
from prompts.text import shorten, strip_ansi
from sandbox.base import Sandbox
from sandbox.frozen import replace
from sandbox.program import shell_command

MOST_FILES: Final = 10
LARGEST: Final = 120_000
"""Bytes; a larger file holds more tests than a sample needs."""
_PARTS: Final = ("integration", "e2e", "functional", "slow", "benchmark", "live", "examples")
"""Folders whose tests often need services or much time; sampled only if there is nothing else."""


def choose_sample(files: Iterable[File], most: int = MOST_FILES) -> tuple[str, ...]:
    """At most `most` of the test files, spread over their folders, medium-sized files first."""
    tests = list(files)
    plain = [file for file in tests if not set(_PARTS) & set(file.path.lower().split("/")[:-1])]
    by_folder: dict[str, list[File]] = defaultdict(list)
    for file in plain or tests:
        by_folder[file.path.rpartition("/")[0]].append(file)
    for folder in by_folder.values():
        middle = sorted(file.size for file in folder)[len(folder) // 2]
        folder.sort(key=lambda file: (file.size > LARGEST, abs(file.size - middle), file.path))
    # Folders with most tests first: a small sample then represents the repository best.
    folders = sorted(by_folder.values(), key=lambda folder: (-len(folder), folder[0].path))
    chosen: list[str] = []
    for turn in range(most):
        chosen += [folder[turn].path for folder in folders if turn < len(folder)]
    return tuple(sorted(chosen[:most]))


HEALTH_KEY: Final = "health"
_OUTPUT: Final = 6000
"""Characters of the tests' output that are kept."""


class HealthCheck:
    def __init__(self, codebase: Codebase, options: Options) -> None:
        self._codebase = codebase
        self._options = options
        self._language = main_language(codebase)

    async def check(self, sandbox: Sandbox, store: Store) -> Health:
        """Check the environment of `sandbox`; `store` belongs to its image only.

        Raises:
            SandboxUnavailable: a program could not be started, or its end is unknown.
        """
        if saved := await store.load(HEALTH_KEY, Health):
            return saved
        self._sandbox, self._store = sandbox, store
        self._ground = ground = await survey(self._codebase)
        root = self._language.find_root(self._codebase.files, self._codebase.root)
        health = replace(
            await self._import_packages(),
            of_files=len(ground.tests),
            chosen=ground.describe_choice(root),
        )
        if health.python or health.loads_nothing:
            health = await self._run_tests(health, root)
        seen, projects = health.projects
        if seen < projects:
            told = (
                await self._sandbox.run(shell_command(f"tail -n 60 {LEFT_OUT}* /dev/null"))
            ).output
            health = replace(health, left_out=tuple(explain_left_out(told)))
        await store.save(HEALTH_KEY, health)
        return health

    async def _import_packages(self) -> Health:
        mark = f"capuchin-{secrets.token_hex(8)}"
        packages = await self._language.packages(self._codebase)
        program = self._language.load_program(packages, mark)
        if program is None:
            line = self._language.facts.toolchain
            told = (await self._sandbox.run(shell_command(line))).output if line else ""
            named = ", ".join(filter(None, map(str.strip, strip_ansi(told).splitlines()[:3])))
            return Health(loads_nothing=True, toolchain=named[:200])
        return parse_imports((await self._sandbox.run(program)).output, mark)

    async def _run_tests(self, health: Health, root: str) -> Health:
        """Add to `health` the tests of the best command: the first by which any passes, unless
        another has results from more projects or files of tests."""
        commands = await find_commands(self._codebase, self._options.test_command)
        ground = self._ground
        # Only what lies in the installed project can run.
        inside = [path for path in ground.tests if not root or path.startswith(f"{root}/")]
        tests = [self._codebase.files[path] for path in inside or ground.tests]
        few = choose_sample(tests)
        best: Health | None = None
        for command in commands:
            found: Health | None = None
            # Where all of them pass, it does not matter which of them pytest collects by itself.
            if len(few) == len(ground.tests) > 0 and not command.python_files and not command.some:
                found = await self._run_sample(health, command, few)
            if found is None or not found.is_whole:
                found = await self._run_collected(health, command, tests)
            if best is None or found.rank > best.rank:
                best = found
            named = found.passed and found.by_name
            if named and not found.sees_little and len({*found.projects}) == 1:
                break
        ran = best and (best.passed or best.failed or ground.tests)
        if best and not ran and self._language.facts.suffixes and not self._options.test_command:
            # What we take for the usual command has nothing to run, however it ends.
            return replace(health, problem=f"No tests were found in the repository. {best.problem}")
        return health if best is None else best

    async def _run_collected(
        self, health: Health, command: TestCommand, tests: Sequence[File]
    ) -> Health:
        """Run the command as it stands if it cannot be restricted, or is another one then; else a
        sample of what it collects by itself."""
        if not command.can_choose:
            found = await self._run_sample(health, command, ())
            if found.passed or found.failed or not command.some or found.ended:
                return found
            # Some runners report only at their end, which was too far.
        collected = await self._collect(command)
        # A named file would run even if the repository's settings leave out its folder.
        own = [file for file in tests if file.path in collected.files]
        # By its settings it may also take files of other names.
        own = own or [self._codebase.files[path] for path in collected.files] or tests
        found = await self._run_sample(health, command, choose_sample(own))
        if found.collected is None and found.passed:
            found = replace(found, collected=collected.tests)
        return _add_reach(found, self._ground, collected.files) if collected.files else found

    async def _run_sample(
        self, health: Health, command: TestCommand, sample: Sequence[str]
    ) -> Health:
        runner = TestRunner(command, sandbox=self._sandbox, store=self._store, seconds=60)
        files = command.covers(sample)
        run = await runner.run("", RequestedTests(files=files or None))
        if run.problem and run.ended and (some := await find_startable(runner, files)):
            files = some
            run = await runner.run("", RequestedTests(files=files))
        return await asyncio.to_thread(_add_run, health, command, run, len(files), self._ground)

    async def _collect(self, command: TestCommand) -> Collected:
        """List the tests that the command runs by itself; empty if its runner cannot."""
        program = self._language.collect_program(command)
        if program is None:
            return Collected()
        output = (await self._sandbox.run(program)).output
        return await asyncio.to_thread(self._language.read_collection, output, self._codebase.files)


def parse_imports(output: str, mark: str) -> Health:
    """Parse the guest's report on the imports; without a report, a `Health` without a Python."""
    _, found, answer = output.rpartition(f"\n{mark} ")
    try:
        told: Any = json.loads(answer.split("\n", 1)[0]) if found else None
        packages = cast(list[dict[str, Any]], told["packages"])
        return Health(
            python=str(told["python"])[:20],
            pythons=tuple(str(one)[:20] for one in told["pythons"])[:30],
            installed=tuple(str(one)[:120] for one in told["installed"]),
            packages=tuple(
                ImportedPackage(name=str(one["name"]), error=str(one["error"])[:600])
                for one in packages
            ),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return Health(output=shorten(output.strip(), _OUTPUT))


def explain_left_out(output: str) -> Iterator[str]:
    """What `tail` prints of files of `LEFT_OUT`, as a sentence for each project."""
    for text in re.split(rf"^==> {LEFT_OUT}\S+ <==\n", output, flags=re.MULTILINE)[1:]:
        folder, _, log = text.partition("\n==> /dev/null")[0].partition("\n")
        cause = find_cause(log) or find_error("", log)
        yield f"`{folder}` could not be installed, and is left out: {cause[:200].rstrip('.')}."


def _add_reach(health: Health, ground: Ground, files: Iterable[str]) -> Health:
    """Add which test files and projects `files` are, of all."""
    reported = set(files) & ground.tests.keys()
    seen, projects = ground.count_projects(reported)
    silent = ground.name_silent(reported)
    return replace(health, reach=len(reported), projects=(seen, projects), silent=silent)


def _add_run(
    health: Health, command: TestCommand, run: TestRun, files: int, ground: Ground
) -> Health:
    suite = run.suite
    failed = set(suite.failed)
    # The test that hung until a limit ended the run counts as failed; one sample has little time.
    count = max(0, len(failed) - (suite.execution.limit == "idle"))
    errors = count_kinds(suite.execution.output) if count else {}
    commonest, alike = find_commonest_error(suite.execution.output) if count else ("", 0)
    problem = run.problem
    if not suite.passed and (not count or not run.per_test):
        problem, count = problem or _explain_nothing(command, run), 0
    begun = {*run.files, *suite.passed, *failed, *suite.offline, *suite.skipped}
    if not files and run.per_test:
        reported = {*run.files.values(), *ground.find_reported(begun)}
        if run.ended and reported:
            health = _add_reach(health, ground, reported)
        elif not run.ended:  # what came until then is a sample
            files = len(reported)
    return replace(
        health,
        by_name=run.per_test or not suite.passed,
        command=command.argv,
        files=files,
        collected=len(begun) if run.ended and (not files or health.of_files <= files) else None,
        passed=len(suite.passed),
        failed=count,
        failing=tuple(name[:LONGEST_ERROR] for name in sorted(failed)[:MOST_NAMED]),
        offline=len(suite.offline),
        skipped=len(suite.skipped),
        errors=errors or (count_kinds(suite.execution.output) if problem else {}),
        commonest=commonest,
        alike=alike,
        ended=run.ended,
        output=shorten(suite.execution.output, _OUTPUT) if count or problem else "",
        problem=problem,
    )


def _explain_nothing(command: TestCommand, run: TestRun) -> str:
    execution = run.suite.execution
    name = " ".join(command.argv)[:200]
    how = f"exit code {execution.exit_code}"
    if execution.exit_code is None:
        how = f"its end: {execution.ending.value}"
    elif error := find_error("", execution.output)[:200]:
        how += f", after: {error.rstrip('.')}"
    return f"No test ran with the command {name} ({how})."
