"""The rungs without a model: the edit's own tests, the wrapped script, the script as a file."""

from collections.abc import Sequence

from pipeline.codebase.git import GitFailed
from pipeline.codebase.unified_diff import parse_diff, split_diff
from pipeline.concurrency import gather_two
from pipeline.data.types import NOT_FIXED, Patch, Reproduction, TestScript
from pipeline.edits.patches import create_patch, read_patched
from pipeline.languages.conventions import is_test_diff
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.registry import is_runnable, language_of, main_language
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.runner import TestRunner
from pipeline.reproduction.red_green import RedGreen, find_problem, run_red_green, tell_error
from pipeline.resources import Resources
from sandbox.frozen import Frozen
from sandbox.program import Execution


class RungResult(Frozen):
    """The saved result of one rung."""

    reproduction: Reproduction | None = None
    problem: str = ""
    """Why it failed. May quote the repository: untrusted."""
    failing: str = ""
    """A test file to which the edit adds tests that fail with it; may be empty."""


class WorkingRunner(Frozen):
    """The saved search for a runner that can run a file of tests here."""

    at: int | None = None
    """Which of the possible runners works; None if none does."""
    problem: str = ""
    """Why the first runner failed; empty if it works. Untrusted."""


async def find_working_runner(
    runners: Sequence[FileRunner], path: str, resources: Resources
) -> WorkingRunner:
    """Find the first of `runners` that runs its probe at `path`.

    Raises:
        SandboxError: the probe could not run.
    """
    problem = ""
    folder = path.rpartition("/")[0]
    near = [p for p in resources.codebase.files if p.rpartition("/")[0] == folder]
    language = main_language(resources.codebase)
    near = sorted(filter(language.is_source, near), key=lambda p: (not is_runnable(p), p))
    beside = await resources.codebase.read_text(near[0]) if near else ""
    for at, runner in enumerate(runners):
        command = runner.command(path)
        if command is None:
            continue
        diff = await _create_diff(path, runner.write_probe(beside or ""), resources)
        run = await resources.run(command, diff)
        if run.passed and runner.has_passing_test(run.output):
            return WorkingRunner(at=at, problem=problem)
        problem = problem or f"`{' '.join(command)}` runs no test here: {tell_error(path, run)}"
    return WorkingRunner(problem=problem or "I know no way to run one file of tests here.")


async def use_own_tests(
    patch: Patch, runners: Sequence[FileRunner], resources: Resources
) -> RungResult:
    """Use the tests in the edit itself, if they fail without the rest of it.

    Where others in their file fail with the edit too, those that it adds run alone.
    """
    tests, rest = split_diff(patch.diff, is_test_diff)
    brought = [file.new for file in parse_diff(tests) if file.new]
    if not brought or not rest.strip():
        return RungResult(problem="The edit brings no tests.")
    if found := await _use_suite(patch, tests, brought, resources):
        return RungResult(reproduction=found)
    files = [path for path in brought if is_runnable(path)]
    problem = "The edit's own tests cannot be run here."
    texts = await _read_texts(tests, files[:3], resources)
    added = {
        path: language_of(path).find_added_tests(tests, path, text) for path, text in texts.items()
    }
    ways = [
        (path, runner, names, runner.command(path, names))
        for path in texts
        for runner in runners
        for names in ([(), added[path]] if added[path] else [()])
    ]
    fails: dict[str, bool] = {}
    for path, runner, names, command in ways:
        if command is not None:
            runs = await run_red_green(resources, command, test=tests, edit=patch.diff)
            problem = find_problem(runner, runs)
            if not problem:
                found = runs.show(path, texts[path], tests, "the edit's own tests")
                return RungResult(reproduction=found)
            if names and (runs.after.passed or runner.has_test_failure(runs.after)):
                fails[path] = fails.get(path, True) and not runs.after.passed
    failing = next((path for path, always in fails.items() if always), "")
    problem = f"The edit's own tests do not show the issue: {problem}"
    return RungResult(problem=problem, failing=failing)


async def _use_suite(
    patch: Patch, tests: str, paths: Sequence[str], resources: Resources
) -> Reproduction | None:
    """Use the edit's tests by the results of the repository's own command, where that knows no
    single files: one fails by its name with the tests alone, and passes with the whole edit."""
    for command in await find_commands(resources.codebase, resources.options.test_command):
        if command.can_choose:
            continue
        runner = TestRunner(
            command,
            sandbox=resources.sandbox,
            store=resources.store,
            seconds=resources.options.suite_seconds,
        )
        wanted = RequestedTests(files=command.covers(paths) or None)
        before, after = await gather_two(runner.run(tests, wanted), runner.run(patch.diff, wanted))
        # A run that ends before its first result is one test by its exit code.
        shown = set(before.suite.failed)
        shown &= set(after.suite.passed) if before.per_test else shown
        ends = RedGreen(
            command=command.argv_with_recorder(wanted.files),
            before=before.suite.execution,
            after=after.suite.execution,
        )
        if shown and ends.after.passed and not ends.before.passed:
            text = (await _read_texts(tests, paths[:1], resources)).get(paths[0], "")
            return ends.show(paths[0], text, tests, "the edit's own tests")
    return None


async def use_wrapped_script(
    script: TestScript,
    patch: Patch,
    runners: Sequence[FileRunner],
    path: str,
    title: str,
    resources: Resources,
) -> RungResult:
    """Use the script as the only test of the new file `path`."""
    language = main_language(resources.codebase)
    path = language.place_script(script.text, path)
    problem = "No runner runs a test file here."
    for runner in runners:
        command = runner.command(path)
        if command is None:
            continue
        text = language.wrap_script(script, runner.style, title)
        diff = await _create_diff(path, text, resources)
        runs = await run_red_green(resources, command, test=diff, edit=patch.diff)
        problem = find_problem(runner, runs)
        if not problem:
            return RungResult(reproduction=runs.show(path, text, diff, "wrapped script"))
    return RungResult(problem=f"The script as a test: {problem}")


async def use_script_file(
    script: TestScript, patch: Patch, paths: Sequence[str], resources: Resources
) -> RungResult:
    """Use the unchanged script, in the first of `paths` where it shows the issue."""
    language = main_language(resources.codebase)
    if language.facts.tests.command:  # it is a test already, and no program of its own
        return RungResult()
    problem = "The settings leave no place for it."
    for path in paths:
        text = script.text
        diff = await _create_diff(path, text, resources)
        command = (language.interpreter, path)
        runs = await run_red_green(resources, command, test=diff, edit=patch.diff)
        ends = (runs.before.exit_code, runs.after.exit_code)
        if ends == (NOT_FIXED, 0):
            return RungResult(reproduction=runs.show(path, text, diff, "script file"))
        problem = f"as {path} it ends with {ends[0]} before the edit and {ends[1]} after it."
    return RungResult(problem=f"The script as a file: {problem}")


def show_script(script: TestScript, before: Execution, after: Execution) -> Reproduction:
    """Use the last rung: the script and its two runs, for reading and not for a commit."""
    runs = RedGreen(command=("python", "-c", script.text), before=before, after=after)
    return runs.show("", script.text, "", "none")


async def _create_diff(path: str, text: str, resources: Resources) -> str:
    data = text.encode("utf-8", "replace")
    return (await create_patch(resources.codebase, {path: data})).diff


async def _read_texts(diff: str, paths: Sequence[str], resources: Resources) -> dict[str, str]:
    """The contents of `paths`, as `diff` leaves them; none if it does not apply."""
    try:
        patched = await read_patched(resources.codebase, diff)
    except GitFailed:
        return {}
    found = {path: file for path in paths if (file := patched.get(path)) is not None}
    return {path: file.content.decode("utf-8", "replace") for path, file in found.items()}
