"""The few tests that concern an edit's changes, and their runs."""

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase, read_log
from pipeline.codebase.git import GitFailed
from pipeline.codebase.unified_diff import FileDiff, list_paths, parse_diff, remove_files
from pipeline.data.progress import SuiteRan
from pipeline.data.suite_reports import SuiteReport, SuiteRun
from pipeline.edits.patches import read_patched
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import COMMON_STEMS, is_test
from pipeline.languages.registry import is_source, language_of, read_test_files, scan_codebase
from pipeline.languages.test_names import is_named
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.compare import compare_runs, count_places, join_near, keep_measured
from pipeline.regression.counts import CountReporter
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.resources import Workspace
from pipeline.store import digest
from sandbox.frozen import replace

MOST_FILES = 12
"""Test files run for one edit."""
MOST_NEAREST = 3
"""Test files that run first and by themselves."""
MOST_BYTES = 400_000
"""The total characters of their texts: a long file has many tests. The nearest is always
included."""
HISTORY_SECONDS = 20.0
_NAMED = 4.0
_IMPORTS = {1: 3.0, 2: 1.5, 3: 0.75, 4: 0.4}
_WORDS = 4.0
_CHANGED = 10.0
Keep = Callable[[Sequence[str]], Sequence[str]]
_DEFINITION = re.compile(
    r"(\s*)(?:(?:export|default|pub|public|private|protected|static|async|final)\s+)*"
    r"(?:def|class|fn|function|struct|trait|interface|func(?:\s*\([^()]{0,100}\))?)\s+(\w+)"
)
_COMMON_STARTS = {word[:5] for word in COMMON_STEMS | {"test", "tests", "src"}} | {""}


@dataclass(frozen=True)
class Nearness:
    """The evidence on which tests are near, by path."""

    texts: Mapping[str, str]
    distances: Mapping[str, int] = field(default_factory=dict[str, int])
    """Import steps to a touched file."""
    together: Mapping[str, float] = field(default_factory=dict[str, float])
    """How often a file changed together with touched files; smaller commits count more."""
    words: Sequence[str] = ()
    """Names of touched functions and classes."""


class NearFiles:
    """Ranks the test files of one codebase."""

    def __init__(self, codebase: Codebase, exclude: Sequence[str] = ()) -> None:
        """Test files that match a pattern of `exclude` are never near."""
        self._codebase = codebase
        self._exclude = exclude
        self._lock = asyncio.Lock()
        self._texts: dict[str, str] | None = None
        self.scan = CodeScan()

    async def find(self, diff: str, keep: Keep = tuple) -> list[str]:
        """Find the test files near `diff`, nearest first, without those that it removes and those
        that `keep` drops."""
        return await self._find(await asyncio.to_thread(parse_diff, diff), keep)

    async def find_near_paths(self, paths: Sequence[str], keep: Keep = tuple) -> list[str]:
        """Find the test files near the files `paths`, nearest first."""
        return await self._find([FileDiff(path, path, []) for path in paths], keep)

    async def find_direct(self, diff: str) -> set[str]:
        """The test files that `diff` changes, that are named after a changed file, or that import
        one, at most by way of the package that offers it."""
        texts = await self._load()
        files = await asyncio.to_thread(parse_diff, diff)
        changed = [path for file in files for path in (file.old, file.new) if path]
        named = {path for path in texts if path in changed or is_beside(path, changed)}
        return named | {p for p, steps in self.scan.distances(changed).items() if 0 < steps < 3}

    async def _find(self, files: Sequence[FileDiff], keep: Keep) -> list[str]:
        texts = await self._load()
        changed = list(dict.fromkeys(p for file in files for p in (file.old, file.new) if p))
        gone = {file.old for file in files if file.old != file.new}
        evidence = Nearness(
            texts=texts,
            distances=self.scan.distances(changed),
            together=await self._read_history(changed),
            words=await self._find_words(files),
        )
        ranked = await asyncio.to_thread(rank_files, changed, evidence)
        return choose_files(keep([path for path in ranked if path not in gone]), texts)

    @property
    def sizes(self) -> dict[str, int]:
        """Characters of each test file; empty before `find`."""
        return {path: len(text) for path, text in (self._texts or {}).items()}

    async def _load(self) -> dict[str, str]:
        async with self._lock:
            if self._texts is None:
                self.scan = await scan_codebase(self._codebase)
                self._texts = await read_test_files(self._codebase, self._exclude)
            return self._texts

    async def _read_history(self, changed: Sequence[str]) -> dict[str, float]:
        """Count common changes; empty without history, for example in a shallow clone."""
        paths = [path for path in changed if path in self._codebase.files]
        if not self._codebase.commit or not paths:
            return {}
        options = ("-n300", "--name-only", "--no-renames", "--min-parents=1", "--full-diff")
        try:
            async with asyncio.timeout(HISTORY_SECONDS):
                found = await read_log(self._codebase, "--format=%x01", *options, paths=paths)
        except (GitFailed, TimeoutError):
            return {}
        return count_together(found.decode("utf-8", "replace"), changed)

    async def _find_words(self, files: Sequence[FileDiff]) -> list[str]:
        words: Counter[str] = Counter()
        for file in files:
            text = await self._codebase.read_text(file.old) if file.old else None
            if text:
                words.update(await asyncio.to_thread(_find_changed_names, file, text))
        return [word for word, _ in words.most_common(30)]


def _find_changed_names(file: FileDiff, text: str) -> list[str]:
    """The functions and classes around each changed line."""
    places: list[int] = []
    for hunk in file.hunks:
        place = hunk.start
        for marker, _ in hunk.lines:
            if marker != " ":
                places.append(place)
            place += marker != "+"
    found = enclosing_names(text.split("\n"), places)
    return [name for place in places for name in found[place]]


def count_together(log: str, changed: Iterable[str]) -> dict[str, float]:
    """Count common changes in `git log --name-only` with a \x01 before each commit."""
    own = set(changed)
    found: defaultdict[str, float] = defaultdict(float)
    for commit in log.split("\x01"):
        names = [name for name in commit.split("\n") if name]
        if 1 < len(names) <= 30:  # a larger commit is not evidence
            for name in names:
                if name not in own:
                    found[name] += 1 / math.sqrt(len(names))
    return dict(found)


def enclosing_names(lines: Sequence[str], places: Iterable[int]) -> dict[int, list[str]]:
    """By line of `places`, counted from 1: the functions and classes around it, innermost first,
    at most ten.

    It reads each line once, however many places there are.
    """
    found: dict[int, list[str]] = {}
    open_ones: list[tuple[int, str]] = []
    at = 0
    for place in sorted(set(places)):
        for line in lines[at:place]:
            if match := _DEFINITION.match(line[:300]):
                indent = len(match[1])
                while open_ones and open_ones[-1][0] >= indent:
                    open_ones.pop()
                open_ones.append((indent, match[2]))
        at = place
        names = (name for _, name in open_ones[:-11:-1])
        found[place] = [name for name in names if len(name) > 2 and not name.startswith("__")]
    return found


def rank_files(changed: Sequence[str], evidence: Nearness) -> list[str]:
    """Rank the test files that have any evidence, nearest first."""
    scores: defaultdict[str, float] = defaultdict(float)
    strongest = max((evidence.together.get(test, 0.0) for test in evidence.texts), default=0.0)
    for test in evidence.texts:
        scores[test] += _CHANGED * (test in changed)
        if evidence.distances.get(test):
            scores[test] += _IMPORTS.get(evidence.distances[test], 0.1)
        if strongest:
            scores[test] += 3.0 * evidence.together.get(test, 0.0) / strongest
    for test, score in _rank_names(changed, list(evidence.texts)).items():
        scores[test] += score
    for word in evidence.words:
        holding = [test for test, text in evidence.texts.items() if word in text]
        rare = _rarity(len(holding), len(evidence.texts))
        for test in holding:
            scores[test] += _WORDS * rare
    return sorted((t for t in evidence.texts if scores[t] > 0), key=lambda t: (-scores[t], t))


def choose_files(ranked: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    """Choose the first `MOST_FILES`, or fewer to keep their total size within the limit."""
    chosen: list[str] = []
    left = MOST_BYTES
    for path in ranked:
        size = len(texts.get(path, ""))
        if chosen and size > left:
            continue
        chosen.append(path)
        left -= size
        if len(chosen) == MOST_FILES or left <= 0:
            break
    return chosen


def _rarity(count: int, whole: int) -> float:
    """1 for a word in a single file, 0 for a word in all of several files."""
    if whole < 2 or not count:
        return float(count > 0)
    return math.log(whole / count) / math.log(whole)


def is_beside(test: str, changed: Iterable[str]) -> bool:
    """Whether a test file is named after one of the files `changed`."""
    return PurePosixPath(test).stem in {name for path in changed for name in _names_after(path)}


def _names_after(path: str) -> set[str]:
    own = _list_parts(path)
    stem = own[-1].lstrip("_") if own else ""
    forms = (*(f"{stem}{mark}{word}" for mark in "._-" for word in ("test", "tests", "spec")),
             f"test_{stem}", f"test_{stem}s", f"test{stem}", f"test-{stem}", f"{stem}Test",
             f"{stem}Tests")  # fmt: skip
    return set(forms) if stem else set()


def _rank_names(changed: Sequence[str], tests: Sequence[str]) -> dict[str, float]:
    """How much the names of test files have in common with those of changed files."""
    stems = {test: PurePosixPath(test).stem for test in tests}
    words = {test: _split_parts(_list_parts(test)) for test in tests}
    counts = Counter(word for found in words.values() for word in found)
    rarity = {word: _rarity(count, len(tests)) for word, count in counts.items()}
    scores = dict.fromkeys(tests, 0.0)
    for path in changed:
        own = _list_parts(path)
        if not is_source(path) or not own:
            continue
        ours, names = _split_parts(own), _names_after(path)
        for test in (one for one in tests if language_of(one) is language_of(path)):
            shared = sum(rarity[word] for word in ours & words[test])
            score = _NAMED if stems[test] in names else shared
            scores[test] = max(scores[test], score)
    return scores


def _list_parts(path: str) -> list[str]:
    """The folders and the name without its ending; a package's `__init__` is the package."""
    return [part for part in PurePosixPath(path).with_suffix("").parts if part != "__init__"]


def _split_parts(parts: Sequence[str]) -> set[str]:
    """The words of a path that distinguish files."""
    found = {word[:5] for part in parts for word in part.lower().split("_")}
    return found - _COMMON_STARTS


class NearbyTests:
    """Compares an edit with the unedited code on nearby tests. Every run is saved."""

    def __init__(
        self, workspace: Workspace, *, on_run: Callable[[SuiteRan], None] | None = None
    ) -> None:
        """`Options.nearby_seconds` of processor time limit each run; `on_run` hears of each."""
        self._sandbox = workspace.sandbox
        self._codebase = workspace.codebase
        self._store = workspace.store
        self._options = workspace.options
        self._on_run, self._say = on_run, workspace.say
        self._counts = CountReporter(workspace.report)
        self.files = NearFiles(workspace.codebase, workspace.options.exclude)
        self._lock = asyncio.Lock()
        self._runners: list[TestRunner] | None = None
        self._idle: set[str] = set()
        """Files all of whose tests are skipped here: others take their places."""
        self.shared: tuple[str, ...] = ()
        """Test files that are near every edit, as other edits for the issue change them."""
        self.whole_seconds: dict[str, float] = {}
        """By diff: the expected processor seconds of all tests."""

    async def compare(self, diff: str) -> SuiteReport | None:
        """Compare the near tests without and with `diff`; None if there are none, or no result.

        The repository's own test command runs them; there is no result if it cannot run a part of
        the tests. With the edit, only tests run that pass without it in time.
        """
        self._say("Running the tests nearest to an edit.")
        report = await self._compare(diff)
        if report:
            await self._store.save(self._key(diff), report)
        return report

    async def add_file(self, known: SuiteReport | None, diff: str, path: str) -> SuiteReport | None:
        """`known`, a result of tests near `diff`, with those of the file `path`, or unchanged."""
        for runner in await self._find_runners():
            found, _ = await self._compare_files(
                runner, diff, runner.command.covers([path]), first=True
            )
            if found and known:
                chosen = f"{known.chosen}, and those in the file that the new test extends"
                return replace(join_near(known, found), chosen=chosen, files=())
            if found:
                return replace(found, files=())
        return known

    async def load(self, diff: str) -> SuiteReport | None:
        """What `compare` found for `diff` earlier in this run, if anything; runs nothing."""
        return await self._store.load(self._key(diff), SuiteReport)

    async def hand_on(self, diff: str, formatted: str) -> None:
        """What is known of `diff` also holds for the same edit as formatters left it."""
        if report := await self.load(diff):
            await self._store.save(self._key(formatted), report)

    def _key(self, diff: str) -> str:
        options = self._options
        command = "\0".join(options.test_command)
        parts = (diff, command, "\0".join(options.exclude), f"{options.nearby_seconds:g}")
        return "near/" + digest("\0\0".join(parts))

    async def _compare(self, diff: str) -> SuiteReport | None:
        for runner in await self._find_runners():
            found: SuiteReport | None = None
            if not runner.command.can_choose and not runner.command.some:
                return await self._compare_all(runner, diff)
            for files in await self._find_groups(diff, runner):
                some = await find_startable(runner, files)
                report, dear = await self._compare_files(runner, diff, some, first=not found)
                if report:
                    found = join_near(found, report) if found else report
                if found and (found.broken or dear):
                    break
            if found:
                return replace(found, files=())
        return None

    async def _compare_all(self, runner: TestRunner, diff: str) -> SuiteReport | None:
        """Compare all tests, which are the near ones where only all can be run, if the time for
        near ones is enough."""
        base = await runner.run()
        if not (base.ended and base.suite.passed):
            return None
        after = await runner.run(diff)
        names = keep_measured(base.suite.passed, base, after)
        if not names:
            return None
        report = await compare_runs(
            runner, self._codebase, base, after, diff=diff, names=names, repeats=1
        )
        return replace(report, whole=len(base.suite.passed))

    async def _compare_files(
        self, runner: TestRunner, diff: str, files: tuple[str, ...], *, first: bool
    ) -> tuple[SuiteReport | None, bool]:
        """Compare the tests of `files`; also whether they take so long that others wait for the
        whole suite. The `first` files are a result only if a test passes without the edit."""
        # Fewer, if all of them take too long to give a result.
        for some in dict.fromkeys((files, files[:3])) if files else ():
            wanted = RequestedTests(files=some)
            base = await runner.run("", wanted)
            self._idle |= find_idle_files(base)
            if base.suite.passed or (base.suite.failed and not first):
                self.whole_seconds.setdefault(diff, self._estimate_whole(base))
                dear = base.suite.execution.own_seconds > self._options.nearby_seconds / 2
                return await self._build_report(runner, base, diff, wanted), dear
            if base.ended:
                break  # it did not lack time
        return None, False

    async def _find_groups(self, diff: str, runner: TestRunner) -> list[tuple[str, ...]]:
        """The near files: first those that the edit changes or that are named after what it
        changes, then the others. A runner that sorts its files would run them in another order.

        The others depend on the code that is changed alone: edits of the same place that bring
        other tests share their run without an edit."""
        own = [path for path in list_paths(diff) if is_test(path)]
        code = remove_files(diff, frozenset(own))
        files = await self.files.find(code or diff, lambda paths: self._keep(runner, paths))
        gone = {file.old for file in parse_diff(diff) if file.old != file.new}
        files = [path for path in files if path not in gone]
        mine = [path for path in own if path in self.files.sizes and path not in gone]
        beside = [path for path in files if is_beside(path, list_paths(code or diff))]
        mine += [path for path in self.shared if path in self.files.sizes and path not in gone]
        nearest = tuple(dict.fromkeys([*self._keep(runner, mine), *beside]))[:MOST_NEAREST]
        rest = tuple(path for path in files if path not in nearest)
        return [group for group in (nearest, rest) if group]

    async def find_files(self, diff: str, runner: TestRunner) -> tuple[str, ...]:
        """Find the near files that `runner` can run separately and start, nearest first."""
        files = await self.files.find(diff, lambda paths: self._keep(runner, paths))
        return await find_startable(runner, tuple(files))

    def _keep(self, runner: TestRunner, paths: Sequence[str]) -> list[str]:
        command = runner.command
        kept = command.collects(command.covers(paths))
        return [path for path in kept if path not in self._idle]

    async def run_unedited(self, paths: Sequence[str]) -> float:
        """Run the tests near the files `paths` without an edit; the expected processor seconds of
        all tests, infinite if that is not known."""
        runner = next(iter(await self._find_runners()), None)
        if runner is None:
            return math.inf
        files = await self.files.find_near_paths(paths, lambda found: self._keep(runner, found))
        base = await runner.run("", RequestedTests(files=tuple(files[:MOST_NEAREST])))
        return self._estimate_whole(base) if files and base.suite.passed else math.inf

    async def run_files(self, diff: str, paths: Sequence[str], attempt: int) -> SuiteRun | None:
        """Run the test files `paths` with `diff`, and with them all others where the command takes
        no files; None if no command gives a result of single tests in time. Each `attempt` is
        saved apart."""
        for runner in await self._find_runners():
            files = tuple(sorted(runner.command.covers(paths)))
            run = await runner.run(diff, RequestedTests(files=files or None), attempt)
            if run.per_test and (files or run.ended):
                return run.suite
        return None

    def _estimate_whole(self, base: TestRun) -> float:
        """The processor seconds of all tests, estimated from the length of their files."""
        used = base.suite.execution.own_seconds
        sizes = self.files.sizes
        begun = {base.files.get(name, "") for name in (*base.suite.passed, *base.suite.failed)}
        part = sum(size for path, size in sizes.items() if path in begun)
        return used * sum(sizes.values()) / part if part else math.inf

    async def _build_report(
        self, runner: TestRunner, base: TestRun, diff: str, wanted: RequestedTests
    ) -> SuiteReport | None:
        names = base.suite.passed
        # What waits for a network fails with the edit, too, after a time.
        whole = base.ended and sum(base.seconds.get(one, 0.0) for one in base.suite.offline) < 5
        asked = wanted if whole else replace(wanted, tests=names)
        after = await runner.run(diff, asked)
        new = None if whole else await self._run_new_tests(runner, diff)
        names = keep_measured(names, base, after)
        if after.suite.execution.exit_code is None and not base.ended:
            # Without the edit the run was cut off, too: only tests that began count.
            names = tuple(name for name in names if name in after.files)
        if not names and base.suite.passed:
            return None
        report = await compare_runs(
            runner,
            self._codebase,
            base,
            after,
            diff=diff,
            names=names,
            repeats=1,
            files=wanted.files or (),
        )
        if new:
            failed = {*report.after.failed, *new.failed}
            report = replace(
                report,
                after=replace(
                    report.after,
                    execution=new.execution if new.failed else report.after.execution,
                    passed=tuple(sorted({*report.after.passed, *new.passed} - failed)),
                    failed=tuple(sorted(failed)),
                ),
            )
        asked_files = wanted.files or ()
        told = {base.files[name] for name in names if base.files.get(name)}
        places = told or {*asked_files}  # not every runner tells them
        if not told and any("{folder}" in word for word in runner.command.some):
            places = {f"{PurePosixPath(path).parent}/" for path in asked_files}
        files = count_places(places)
        if told and not base.ended and len(told) < len(asked_files):
            files = f"{len(told)} of {count_places(asked_files)}"
        which = "those" if base.ended else "as many as the time allowed"
        return replace(
            report,
            chosen=f"{which} in {files} nearest to the edit",
            files=tuple(sorted(places)),
            unreached=bool(base.files) and not told & await self.files.find_direct(diff),
        )

    async def _run_new_tests(self, runner: TestRunner, diff: str) -> SuiteRun | None:
        """Run the tests that `diff` brings: in a choice by name of others they do not run."""
        try:
            patched = await read_patched(self._codebase, diff)
        except GitFailed:
            return None
        named: dict[str, tuple[str, ...]] = {}
        for path, file in patched.items():
            # A file that is named to a runner runs whatever the repository calls its tests.
            if file is not None and is_test(path) and runner.command.covers([path]):
                text = file.content.decode("utf-8", "replace")
                # Without the class: others may inherit the test.
                if names := language_of(path).find_added_tests(diff, path, text):
                    named[path] = names
        if not named:
            return None
        run = await runner.run(diff, RequestedTests(files=tuple(sorted(named)), named=named))
        # A runner that takes files alone runs the other tests, too.
        new = {test for test, path in run.files.items() if is_named(test, path, named)}
        return replace(
            run.suite,
            passed=tuple(name for name in run.suite.passed if name in new),
            failed=tuple(name for name in run.suite.failed if name in new),
        )

    async def _find_runners(self) -> list[TestRunner]:
        async with self._lock:
            if self._runners is None:
                commands = await find_commands(self._codebase, self._options.test_command)
                self._runners = [
                    TestRunner(
                        command,
                        sandbox=self._sandbox,
                        store=self._store,
                        seconds=self._options.nearby_seconds,
                        counts=self._counts,
                        on_run=self._on_run,
                    )
                    for command in commands
                ]
            return self._runners


def find_idle_files(base: TestRun) -> set[str]:
    """The files that began, and whose tests were all skipped."""
    told = {*base.suite.passed, *base.suite.failed, *base.suite.offline, *base.unfinished}
    used = {base.files.get(name, "") for name in told}
    return {base.files.get(name, "") for name in base.suite.skipped} - used


async def find_startable(runner: TestRunner, files: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the `files` with which the runner does not even start, found by halving.

    One file stops all: pytest ends at a `conftest.py` that cannot be imported, Django's runner at
    a folder whose database is not there.
    """
    # Runs that end before a test begins; enough to find two files among twelve.
    left = 9

    async def find(some: tuple[str, ...]) -> tuple[str, ...]:
        nonlocal left
        if not some or not left:
            return ()
        run = await runner.run("", RequestedTests(files=some))
        if not (run.problem and run.ended):
            return some
        left -= 1
        half = len(some) // 2
        return (*await find(some[:half]), *await find(some[half:])) if half else ()

    return await find(files)
