"""Runs a command in the sandbox, once, and saves the run."""

import asyncio
import base64
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import resources

from pipeline.codebase.isolated import call_isolated
from pipeline.data.progress import SuiteRan
from pipeline.data.suite_reports import SuiteRun
from pipeline.languages.readers import (
    Outcomes,
    explain_end,
    is_whole,
    parse_console_output,
    parse_junit,
    parse_sympy_output,
    ran_nothing,
)
from pipeline.languages.registry import drop_progress, find_error, shorten_failures
from pipeline.languages.reports import READERS, WORDS
from pipeline.languages.test_command import TestCommand, split_places
from pipeline.regression.command import RequestedTests
from pipeline.regression.counts import CountReporter
from pipeline.regression.results import (
    RecordedOutcomes,
    TestRun,
    WrapperOutput,
    join_files,
    split_by_file,
)
from pipeline.store import SHARED, Store, digest, hold_key
from prompts.text import shorten
from sandbox.base import Sandbox
from sandbox.frozen import Frozen, replace
from sandbox.output import LEFT_OUT
from sandbox.program import NO_ENV, Ending, Execution, OutputWatch, Program, repeat_environment

WRAPPER_SOURCE = "\n".join(
    (resources.files(package) / name).read_text("utf-8")
    for package, name in (
        ("sandbox.guest.supervisor", "time_limit.py"),
        ("pipeline.regression.guest", "wrapper.py"),
    )
)
OUTPUT_BYTES = 32 * 1024 * 1024
"""Room for the records, in the second half of the output, after the printed text."""
GRACE_SECONDS = 20.0
"""The wrapper's own time on top of the command: its start, and sending the records."""
INCOMPLETE = "The printed results are incomplete: the run ended early, or part of them is missing."
TOO_LONG = (
    f"The tests printed more than {OUTPUT_BYTES >> 20} MB, so that their results are missing. Let "
    "the test command print less."
)
FORGED = "The tests printed forged results, or stopped the program that reports them."
UNBUILT = "The code does not build with this edit:"
TOO_MUCH = "The tests produced more results than can be read."
_SMALL_OUTPUT = 64 * 1024
_MOST_OUTPUT = 16_000
"""Bytes, unpacked, that parse in some 20 ms in this process; another process takes longer to
start."""
MOST_KEPT = 24 * 1024 * 1024
"""Bytes of a run's result: 50,000 tests. Records of a few hundred KB unpack to more."""
PARSE_SECONDS = 120.0
PARSE_MEMORY = 3 * 1024 * 1024 * 1024
_PIECE = 100_000
"""Characters of one argument: Linux takes 128 KiB."""


@dataclass(eq=False)
class TestRunner:
    """Runs one command on the code, with and without edits."""

    __test__ = False

    command: TestCommand
    _: KW_ONLY
    sandbox: Sandbox
    store: Store
    seconds: float
    """The limit of processor time of each run."""
    counts: CountReporter | None = None
    """Hears how far each run is."""
    on_run: Callable[[SuiteRan], None] | None = None
    """Hears of each run, saved or new."""

    async def run(
        self,
        diff: str = "",
        wanted: RequestedTests | None = None,
        attempt: int = 0,
        *,
        wall: float = math.inf,
    ) -> TestRun:
        """Run the tests with `diff`; another `attempt` repeats the run, with other hash seeds.

        A run that stayed below its limit is not repeated for another limit that it stays below. Of
        whole files without an edit, those run that did not run before.
        After `wall` seconds of wall time the run is cut short, and its results are this run's alone
        (`SHARED`).

        Raises:
            PatchRejected: a diff does not apply.
            SandboxUnavailable: a program could not be started, or its end is unknown.
        """
        wanted = wanted or RequestedTests()
        if diff or attempt or not wanted.is_of_files:
            key, run = await self._load_or_run(diff, wanted, attempt, wall)
        else:
            key, run = await self._run_unedited(wanted, wall)
        if self.on_run:
            tests = len(run.suite.passed) + len(run.suite.failed)
            self.on_run(SuiteRan(key, tests, is_unedited=not diff and not attempt))
        return run

    async def _run_unedited(self, wanted: RequestedTests, wall: float) -> tuple[str, TestRun]:
        """The run of some test files, of which each is saved: other edits have other near files.
        What is joined of such parts has no output."""
        argv, names = self.command.argv, self._find_keys("", wanted, 0)
        async with hold_key(self.store, f"unedited/{digest(*argv)}"):
            if saved := await self._load(names):
                return saved
            keys = {path: f"{SHARED}{digest(*argv, path)}" for path in wanted.files or ()}
            known = {path: await self.store.load(key, TestRun) for path, key in keys.items()}
            rest = tuple(path for path, run in known.items() if run is None)
            if not rest:
                return names[0], join_files([run for run in known.values() if run])
            key, run = await self._load_or_run("", replace(wanted, files=rest), 0, wall)
            parts = split_by_file(run, rest)
            for path, part in parts.items():
                await self.store.save(keys[path], part)
            if len(rest) == len(known):
                return key, run
            if parts:
                return names[0], join_files([one or parts[path] for path, one in known.items()])
            return await self._load_or_run("", wanted, 0, wall)

    def _find_keys(self, diff: str, wanted: RequestedTests, attempt: int) -> tuple[str, str, str]:
        """Under which a run is saved: one below any limit, one by this limit, one that was cut."""
        request = (*self.command.argv, diff, str(attempt))
        name = digest(*request, wanted.key(), str(self.seconds))
        # A further attempt observes random behaviour of this environment.
        prefix = "regression/" if diff or attempt else SHARED
        # All of them run below the limit, in whichever order.
        files = replace(wanted, files=wanted.files and tuple(sorted(wanted.files)))
        any_limit = f"{prefix}{digest(*request, files.key())}"
        return any_limit, f"{prefix}{name}", f"regression/cut/{name}"

    async def _load(self, keys: Sequence[str]) -> tuple[str, TestRun] | None:
        any_limit, *others = keys
        saved = await self.store.load(any_limit, TestRun)
        if saved and saved.is_below(self.seconds):
            return any_limit, saved
        for one in others:
            if saved := await self.store.load(one, TestRun):
                return one, saved
        return None

    async def _load_or_run(
        self, diff: str, wanted: RequestedTests, attempt: int, wall: float
    ) -> tuple[str, TestRun]:
        """The run, and the key under which it is saved."""
        keys = self._find_keys(diff, wanted, attempt)
        any_limit, key, cut = keys
        async with hold_key(self.store, any_limit):
            if saved := await self._load(keys):
                return saved
            name = key.rpartition("/")[2]
            env = repeat_environment(attempt) if attempt else NO_ENV
            run = await self._run((diff,) if diff else (), wanted, name, env, wall, report=diff)
            if run.suite.execution.limit == "run time":
                key = cut
            elif run.is_below(self.seconds):
                key = any_limit
            await self.store.save(key, run)
            return key, run

    async def run_changed(self, diffs: Sequence[str], paths: Sequence[str]) -> TestRun:
        """Run the test files `paths` on the code with `diffs`; not saved. Raises as `run`."""
        wanted = RequestedTests(files=tuple(paths))
        return await self._run(tuple(diffs), wanted, digest(*diffs), NO_ENV, math.inf)

    async def _run(
        self,
        diffs: tuple[str, ...],
        wanted: RequestedTests,
        name: str,
        env: Mapping[str, str],
        wall: float,
        *,
        report: str | None = None,
    ) -> TestRun:
        """`report`: the diff whose count of tests is reported, if any."""
        # The mark separates records from printed text; tests could read and forge any.
        mark = f"capuchin-{name}"

        def on_line(line: str) -> None:
            if report is not None:
                self._report_count(report, wanted, line)

        execution = await self.sandbox.run(
            Program(
                self._argv(wanted, mark, wall),
                diffs=diffs,
                seconds=self.seconds + GRACE_SECONDS,
                output_bytes=OUTPUT_BYTES,
                env=env,
                watch=OutputWatch(f"{mark}:", on_line),
                may_wait=True,  # the wrapper sees whether tests begin
            )
        )
        run = await parse_untrusted_execution(execution, self.command, mark)
        if report is not None and self.counts:
            self.counts.end(report, wanted, run.suite.count)
        return run

    def _report_count(self, diff: str, wanted: RequestedTests, line: str) -> None:
        counts = re.fullmatch(r"(\d{1,8})/(\d{1,8})", line)
        if counts and self.counts:
            self.counts.count(diff, wanted, int(counts[1]), int(counts[2]))

    def _argv(self, wanted: RequestedTests, mark: str, wall: float) -> tuple[str, ...]:
        request = {
            "argv": self.command.argv_with_recorder(wanted.files),
            "mark": mark,
            "seconds": self.seconds,
            "wall": None if math.isinf(wall) else max(1.0, wall),
            "addopts": self.command.recorder_options(),
            "files": self.command.recorder_files(),
            "variables": dict(self.command.variables),
            "wanted": wanted.model_dump(),
        }
        packed = zlib.compress(json.dumps(request).encode(), 9)
        text = base64.b64encode(packed).decode("ascii")
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        # Isolated mode: a file `signal.py` of the repository must not replace the wrapper's module.
        return ("python", "-I", "-c", WRAPPER_SOURCE, *pieces)


async def parse_untrusted_execution(
    execution: Execution, command: TestCommand, mark: str
) -> TestRun:
    """Parse like `parse_execution`, in another process if it may take long.

    Beyond the limits of time or memory, no tests are distinguished.
    """
    if await asyncio.to_thread(_is_small, execution, mark):
        return parse_execution(execution, command, mark)
    question = _Question(execution=execution, command=command, mark=mark)
    data = await asyncio.to_thread(lambda: question.model_dump_json().encode())
    answer = await call_isolated(
        parse_in_process, data, seconds=PARSE_SECONDS, memory_bytes=PARSE_MEMORY
    )
    if answer is None:
        printed = execution.output.partition(f"{mark} ")[0]
        execution = replace(execution, output=printed.rstrip("\n"))
        suite = SuiteRun(execution=_trim(execution), passed=(), failed=())
        return TestRun(suite=suite, per_test=False, ended=False, problem=TOO_MUCH)
    return await asyncio.to_thread(TestRun.model_validate_json, answer)


def _is_small(execution: Execution, mark: str) -> bool:
    if len(execution.output) > _SMALL_OUTPUT:
        return False
    sent = WrapperOutput(execution, mark)
    return len(sent.records) + sum(map(len, sent.documents)) <= _SMALL_OUTPUT


def parse_in_process(data: bytes) -> bytes:
    """Run `parse_execution` from JSON to JSON, without the functions if they take too much.

    Raises `ValueError`: the result is larger than can be kept.
    """
    asked = _Question.model_validate_json(data)
    run = parse_execution(asked.execution, asked.command, asked.mark)
    for each in (run, replace(run, ran={}, names=())):
        answer = each.model_dump_json().encode()
        if len(answer) <= MOST_KEPT:
            return answer
    raise ValueError(TOO_MUCH)


class _Question(Frozen):
    execution: Execution
    command: TestCommand
    mark: str


def parse_execution(execution: Execution, command: TestCommand, mark: str) -> TestRun:
    """Read the tests' results: from our recorder, else from JUnit files, else from the printed
    text, else from the exit code as one test named after the command.

    There is no result (`problem`) if the runner did not start, collected nothing or crashed, or
    says that it ran no test: a good exit code is no test that passes then.
    """
    sent = WrapperOutput(execution, mark)
    recorded = RecordedOutcomes()
    recorded.read(sent.records, sent.over_at)
    code = sent.execution.exit_code
    found, problem = _outcomes(command, sent, recorded)
    each = bool(found.passed or found.failed or recorded.unfinished)
    if not each and not problem and not command.can_choose and code not in (None, 126, 127):
        name = " ".join(command.argv)[:500]
        if sent.documents or found.skipped or ran_nothing(sent.execution.output):
            error = find_error("", sent.execution.output)[:200].rstrip(".") if code else ""
            after = f", after: {error}" if error else ""
            problem = f"`{name}` says that it ran no test (exit code {code}{after})."
        else:
            found.add(name, good=code == 0, seconds=execution.seconds)
    offline = recorded.offline & found.failed
    execution = sent.execution
    if words := WORDS.get(command.reader):
        execution = replace(execution, output=words(execution.output))
    return TestRun(
        suite=SuiteRun(
            execution=_trim(execution),
            passed=tuple(sorted(found.passed - found.failed)),
            failed=tuple(sorted(found.failed - offline)),
            offline=tuple(sorted(offline)),
            errors=tuple(sorted(found.errors & found.failed - offline)),
            skipped=tuple(sorted(found.skipped - found.passed - found.failed)),
            raised={name: kind for name, kind in recorded.raised.items() if name in found.failed},
            cut=sent.find_cut(found, recorded.selected),
        ),
        files=_files(recorded, found, command),
        seconds={name: round(seconds, 4) for name, seconds in found.seconds.items()},
        names=tuple(recorded.names),
        ran=recorded.ran,
        start=sent.measure_start(recorded.first),
        per_test=each,
        unfinished={name: round(seconds, 4) for name, seconds in recorded.unfinished.items()},
        ended=code is not None and sent.end is not None,
        titles=recorded.titles,
        problem=problem,
    )


def _outcomes(
    command: TestCommand, sent: WrapperOutput, recorded: RecordedOutcomes
) -> tuple[Outcomes, str]:
    """The outcomes; or empty ones, and why."""
    code, output = sent.execution.exit_code, sent.execution.output
    if sent.forged:
        return Outcomes(), FORGED
    if problem := explain_end(command.kind, code, output, recorded):
        return Outcomes(), problem
    if recorded.passed or recorded.failed or recorded.unfinished:
        return recorded, ""
    if sent.execution.ending is Ending.UNBUILT:
        return Outcomes(), f"{UNBUILT} {find_build_error(output)}"
    if command.kind == "files":
        limit = sent.execution.limit
        printed = parse_sympy_output(output, cut=bool(limit), hung=limit == "idle")
        return printed, "" if printed.passed or printed.failed else INCOMPLETE
    if sent.execution.ending is Ending.OUTPUT or (command.reader and LEFT_OUT in output):
        return Outcomes(), TOO_LONG
    found = _read_reports(command, output, sent)
    if found.passed or found.failed or command.reader:
        return found, ""
    passed, failed = parse_console_output(output)
    if (passed or failed) and not is_whole(output, len(passed | failed)):
        return Outcomes(), INCOMPLETE
    return Outcomes(passed - failed, failed), ""


def _read_reports(command: TestCommand, output: str, sent: WrapperOutput) -> Outcomes:
    """The results in report files and, without any, in what the readers of `command` know."""
    if not command.folders:
        found, readers = parse_junit(sent.documents), command.reader.split()
        if readers and not (found.passed or found.failed):
            found = READERS[readers[0]](output, sent.documents)
        return found
    whole = Outcomes()
    below = sorted(command.folders, key=len, reverse=True)
    for document, place in zip(sent.documents, sent.places, strict=True):
        folder = next((one for one in below if place.startswith(f"{one}/")), "")
        whole.add_all(parse_junit([document]), folder)
        for reader in command.reader.split():
            whole.add_all(READERS[reader]("", [document]), folder)
    for folder, text in split_places(output):
        for reader in command.reader.split():
            whole.add_all(READERS[reader](text, ()), folder)
    return whole


def find_build_error(output: str) -> str:
    """The first line of a failed build that names an error, else its last. Untrusted."""
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|: undefined|\bFAILED\b", line, re.I)]
    return (errors or lines[-1:] or ["it printed nothing"])[0][:300]


def _files(recorded: RecordedOutcomes, found: Outcomes, command: TestCommand) -> dict[str, str]:
    if command.kind != "files":
        return recorded.files
    names = found.passed | found.failed
    return {name: name.partition("::")[0] for name in names}


def _trim(execution: Execution) -> Execution:
    """Keep the output's beginning and end, without mere progress, and the first failure where that
    is long: names are stored apart, and checkpoints stay small."""
    text = drop_progress(execution.output)
    if len(text) > _MOST_OUTPUT:
        text = shorten(shorten_failures(text), _MOST_OUTPUT)
    return replace(execution, output=text)
