"""The health of an environment: the rule that grades it, kinds of failures."""

import re
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import Final

from pydantic import Field

from pipeline.data.suite_reports import SKIPPED
from prompts.text import agree, join_names, pluralize
from sandbox.frozen import Frozen

OTHER: Final = "other"
"""The kind of failures that are of no known kind."""


MOST_NAMED: Final = 100
Rank = tuple[bool, float, int, float, int]


class Grade(IntEnum):
    """Higher is better."""

    BROKEN = 0
    """The package cannot be imported, or its tests fail because of the environment."""
    USABLE = 1
    """A few tests fail without any edit, or the command runs few of the tests."""
    UNTESTED = 2
    """It imports; there are no tests to judge it."""
    HEALTHY = 3


_WORKS: Final = {
    Grade.HEALTHY: "works",
    Grade.UNTESTED: "imports, but there are no tests to judge it by",
    Grade.USABLE: "works, but not without problems",
    Grade.BROKEN: "does not work",
}


class ImportedPackage(Frozen):
    name: str
    error: str = ""
    """The end of the traceback. Untrusted; empty if the import succeeded."""


class Health(Frozen):
    """The findings in one environment, without any edit."""

    python: str = ""
    """Its version; empty if not even Python started."""
    toolchain: str = ""
    """What its compiler or interpreter says of its version, in another language. Untrusted."""
    loads_nothing: bool = False
    """Whether its language has nothing that is loaded first: its tests alone judge."""
    pythons: tuple[str, ...] = ()
    """The versions, `3.N`, that an environment can have without a download."""
    packages: tuple[ImportedPackage, ...] = ()
    installed: tuple[str, ...] = ()
    """`name==version`, according to the environment. Untrusted."""
    command: tuple[str, ...] = ()
    """The command that runs the tests; empty if none was found."""
    files: int = 0
    of_files: int = 0
    """Test files that the repository has."""
    reach: int = 0
    """Test files of which the command has results by itself; 0 if that is not known."""
    projects: tuple[int, int] = (0, 0)
    """From how many projects with tests there are results, of how many; 0 of 0 if not known."""
    left_out: tuple[str, ...] = ()
    """Why projects without results could not be installed, a sentence each. Untrusted."""
    silent: str = ""
    """Folders with the test files of which there are none, as a list in words. Untrusted."""
    chosen: str = ""
    """A sentence on the projects that are not installed; empty if all are. Untrusted."""
    cut: str = ""
    """A sentence that the build's time was over before its end, if it was."""
    by_name: bool = True
    """Whether results are of single tests, not of the command as a whole."""
    collected: int | None = None
    """Tests that the repository has; None if they were not counted in time."""
    passed: int = 0
    failed: int = 0
    """Failures among the sampled tests. A failed collection counts as one."""
    failing: tuple[str, ...] = ()
    """The names of those that failed, at most `MOST_NAMED`. Untrusted."""
    offline: int = 0
    """Tests that need a network, a display or a service: no evidence, and not among the failed."""
    skipped: int = 0
    """Tests that were skipped, or failed as they are expected to: neither passed nor failed."""
    errors: dict[str, int] = Field(default_factory=dict[str, int])
    """The number of failures by kind that the output shows."""
    commonest: str = ""
    """The error with which most of those failures end. Untrusted."""
    alike: int = Field(default=0, ge=0)
    """How many failures end with it."""
    ended: bool = True
    """Whether the sampled tests ran to their end."""
    output: str = ""
    """The end of their output, if some failed. Untrusted."""
    problem: str = ""
    """Why no test could run, or why the results cannot be trusted, in a sentence. Untrusted."""

    @property
    def imports(self) -> bool:
        """Whether every package could be imported; True without packages."""
        started = self.python or self.loads_nothing
        return bool(started) and not any(package.error for package in self.packages)

    @property
    def is_whole(self) -> bool:
        """Whether all tests of the repository ran, and none failed."""
        clean = self.passed and not self.failed and not self.problem
        return bool(clean and self.collected is not None)

    @property
    def sees_little(self) -> bool:
        """Whether the command runs so few of the test files that a pass says little, or names no
        test where there are several files."""
        return 0 < 4 * self.reach < self.of_files or not (self.by_name or self.of_files < 2)

    @property
    def failures_of_environment(self) -> int:
        """How many of the failures another environment may fix."""
        others = sum(self.errors.get(kind, 0) for kind in ("assertion", "network", "display"))
        return max(0, self.failed - others)

    @property
    def grade(self) -> Grade:
        """The rule: nothing fails; or at most a tenth fails; else broken."""
        if not self.imports and not self.passed:
            return Grade.BROKEN
        if not self.of_files and not self.command:
            return Grade.UNTESTED if self.imports else Grade.BROKEN
        if not self.passed and (not self.failed or self.failures_of_environment):
            return Grade.BROKEN
        if not self.failed and self.imports and not self.problem and not self.sees_little:
            return Grade.HEALTHY
        return Grade.USABLE if self._is_tolerable() else Grade.BROKEN

    @property
    def works(self) -> str:
        """The grade as the verb of a sentence."""
        if self.grade is Grade.UNTESTED and self.loads_nothing:
            return "is installed, but there are no tests to judge it by"
        if self.grade is Grade.BROKEN and self.passed:
            return "works only in part"
        if self.grade is Grade.USABLE and self.sees_little and not self.failed:
            return "works, as far as the few tests show that its command runs"
        if self.grade is Grade.USABLE and self.failed:
            fails = agree(self.failed, "fails", "fail")
            return f"works, but {pluralize(self.failed, 'test')} {fails} in it without any edit"
        return _WORKS[self.grade]

    def _is_tolerable(self) -> bool:
        sampled = self.passed + self.failed
        # Of the measured environments, right ones failed at most 3 %, wrong ones 10 % and more,
        # with one exception at 4 %.
        if self.failures_of_environment > 0.1 * sampled:
            return False
        # Many simultaneous assertion failures point to another version of something.
        apart = self.errors.get("network", 0) + self.errors.get("display", 0)
        # With few tests, failing assertions reveal more about the code than about its environment.
        return sampled < 10 or 2 * (self.failed - apart) <= sampled

    @property
    def rank(self) -> Rank:
        """Sort key of environments: the greatest is the best. One that works in more projects is
        better than one that works well in fewer."""
        sampled = self.passed + self.failed
        works, (seen, projects) = self.grade is not Grade.BROKEN, self.projects
        share = self.passed / sampled if sampled else 0.0
        reach = seen / projects if works and projects else float(works)
        return (works, reach, self.grade, share, self.passed)

    def sentences(self) -> tuple[str, ...]:
        """The findings, for people and models; quotes the repository, so untrusted."""
        return (self._describe_imports(), self._describe_tests(), self.chosen, self.cut)

    def summary(self) -> str:
        """The findings on one line."""
        return " ".join(filter(None, self.sentences()))

    def _describe_imports(self) -> str:
        if self.loads_nothing:
            return ""
        if not self.python:
            return "Python does not start."
        broken = [package for package in self.packages if package.error]
        if broken:
            first = broken[0]
            return f"The package {first.name} cannot be imported: {first.error}."
        names = ", ".join(package.name for package in self.packages)
        return f"{names} can be imported." if names else ""

    def _describe_tests(self) -> str:
        if not self.command:
            return self.problem or "No tests were found in the repository."
        if not self.passed and not self.failed:
            return self.problem or "No test could be run."
        sampled = self.passed + self.failed
        of = self._describe_sample(sampled + self.offline + self.skipped)
        told = {kind: count for kind, count in self.errors.items() if count and kind != OTHER}
        kinds = ", ".join(f"{kind} {count}" for kind, count in told.items())
        why = f" ({kinds})" if kinds else ""
        end = "" if self.ended else " They did not finish in time."
        if self.failed and self.commonest:
            most = "The most frequent error" if self.alike > 1 else "One of the errors"
            what = "The error" if self.failed == 1 else most
            end += f" {what}: {self.commonest.rstrip('.')}."
        if self.offline:
            needs = agree(self.offline, "needs", "need")
            end += (
                f" {self.offline:,} more {needs} a network or a display, which the sandbox lacks."
            )
        if self.skipped:
            end += f" {self.skipped:,} more {agree(self.skipped, 'is', 'are')} {SKIPPED}."
        end += self.describe_reach()
        end += f" {self.problem}" if self.problem else ""
        if not self.by_name:
            return f"The command passes, and names no single tests.{end}"
        passed, failed = self.passed, self.failed
        fail = f", {failed} {agree(failed, 'fails', 'fail')}{why}" if failed else ""
        fail += f": {join_names(self.failing)}" if 0 < failed == len(self.failing) < 4 else ""
        tests = f"{passed:,} of {pluralize(sampled, 'test')}{of}"
        return f"{tests} {agree(passed, 'passes', 'pass')}{fail}.{end}"

    def describe_reach(self) -> str:
        """From what lies in the tree no result came."""
        told = ""
        seen, projects = self.projects
        if seen < projects:
            told = f" There are results from {seen} of {projects} projects with tests."
            told = " ".join([told, *self.left_out])
        if 0 < self.reach < self.of_files:
            files = pluralize(self.of_files, "test file")
            told += f" The command has results from {self.reach:,} of {files}; "
            told += f"none from: {self.silent}."
        return told

    def _describe_sample(self, sampled: int) -> str:
        if self.collected is None and 0 < self.files < self.of_files:
            return f" (a sample: {self.files} of {pluralize(self.of_files, 'test file')})"
        known = self.collected is not None and self.collected > sampled
        return f" (a sample of {self.collected:,})" if known else ""


MOST_BLOCKS: Final = 500
_BLOCK: Final = re.compile(
    r"^(?:_{3,} .{1,300} _{3,}|={3,}\n(?:ERROR|FAIL): .{1,300})$", re.MULTILINE
)
"""The first line of pytest's and unittest's output about one failure."""
_ERROR_LINE: Final = re.compile(
    r"^(?:E {1,8})?(?:[\w.]{1,100}(?:Error|Exception|Warning|Exit)\b.{0,300})", re.M
)
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")
LONGEST_ERROR: Final = 200
_MISSING_PROGRAM: Final = re.compile(
    r"^(?:\S{1,200}: )?(?:line )?(?:\d{1,6}: )?[\w./+-]{1,100}: (?:command )?not found$",
    re.MULTILINE,
)
"""A shell's words; POSIX, Shell Command Language, 2.8.2."""
KINDS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "network",
        re.compile(
            r"Temporary failure in name resolution|Name or service not known|getaddrinfo failed"
            r"|Network is unreachable|Failed to establish a new connection|NewConnectionError"
            r"|ConnectionRefusedError|No address associated with hostname|nodename nor servname"
        ),
    ),
    (
        "display",
        re.compile(
            r"(?i:no display name and no \$DISPLAY|(?:could|ca)n.t connect to display"
            r"|cannot connect to X server|could not connect to display"
            r"|(?:unable to|cannot) open display)|KeyError: 'DISPLAY'"
        ),
    ),
    ("missing program", _MISSING_PROGRAM),
    ("missing module", re.compile(r"ModuleNotFoundError|No module named")),
    ("import error", re.compile(r"ImportError|cannot import name|DistributionNotFound")),
    ("syntax", re.compile(r"SyntaxError|IndentationError")),
    ("fixture or plugin", re.compile(
        r"fixture '.{1,100}' not found|PluginValidationError|unrecognized arguments|INTERNALERROR"
        r"|unknown hook|UsageError|PytestRemovedIn|PytestDeprecationWarning"
    )),
    ("timeout", re.compile(r"Timeout(?:Error|Expired)\b|\bTimeout \(?>|\b[Tt]imed out\b")),
    ("assertion", re.compile(r"AssertionError|^E {1,8}assert |DID NOT RAISE", re.MULTILINE)),
)  # fmt: skip
"""Kinds by their last error line; the first match counts."""


def count_kinds(output: str) -> dict[str, int]:
    """How many failures of each kind `output` shows; unknown kinds are `OTHER`."""
    found: Counter[str] = Counter()
    for number, block in enumerate(_blocks(output)):
        if number >= MOST_BLOCKS:
            break
        found[kind_of(block)] += 1
    if not found and (kind := kind_of(output)) != OTHER:
        found[kind] = 1
    return dict(found.most_common())


def find_commonest_error(output: str) -> tuple[str, int]:
    """The error that most failures in `output` end with, and how many do; empty and 0 where none is
    told. Untrusted."""
    blocks = islice(_blocks(output), MOST_BLOCKS)
    errors = [error for block in blocks if (error := _last_error(block))]
    if not errors and (missing := _MISSING_PROGRAM.search(output)):
        errors = [missing[0].strip()]
    alike = Counter(map(_mask_numbers, errors))
    commonest = max(errors, key=lambda error: alike[_mask_numbers(error)], default="")
    return commonest[:LONGEST_ERROR], alike[_mask_numbers(commonest)]


def kind_of(block: str) -> str:
    lines = [match[0] for match in _ERROR_LINE.finditer(block)]
    asserts = re.findall(r"^E {1,8}assert ", block, re.MULTILINE)
    told = "\n".join([*lines[-6:], *asserts])
    for kind, pattern in KINDS:
        if pattern.search(told or block):
            return kind
    return OTHER


def _last_error(block: str) -> str:
    """What pytest marks last in `block`, by its first line; else the last line of an error."""
    last, marked_before = "", False
    for line in block.splitlines():
        marked = line.startswith("E  ")
        if marked and not marked_before:
            last = line[1:]
        marked_before = marked
    for match in () if last else _ERROR_LINE.finditer(block):
        last = match[0]
    printed = (char if char.isprintable() else " " for char in last)
    return " ".join("".join(printed).split())


def _mask_numbers(error: str) -> str:
    """`error` without what differs from test to test, such as addresses."""
    return _NUMBER.sub("0", error)


def _blocks(output: str) -> Iterator[str]:
    starts = [match.start() for match in _BLOCK.finditer(output)]
    for start, end in zip(starts, [*starts[1:], len(output)], strict=False):
        yield output[start:end]
