"""Installs what package and tests need, in one resolution; what failures mean."""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Sequence

from sandbox.guest.installer.plan import PYTHON
from sandbox.guest.installer.requirements import name_of, next_upload, normalise_name, without
from sandbox.guest.installer.uv import UV, Uv, show_line

CULPRITS = (
    r"[Ff]ailed to build `([\w.-]+?)(?:==|`| @)",
    r"Because ([\w.-]+) was not found",
    r"there (?:is|are) no versions? of ([\w.-]+)",
    r"all versions of ([\w.-]+) have no",
    r"Wheels are required for `([\w.-]+)`",
    r"only ([\w.-]+?)(?:\[[^\]]*\])?[<>=]",
    r"[Ff]ailed to (?:download|read|fetch|prepare)[^`]*`([\w.-]+?)(?:==|`| @)",
)
FILTERED = re.compile(r"`([\w.-]+)` was filtered by `exclude-newer`")
MISMATCH = re.compile(r"Hash mismatch for `([^`]{1,200})`")
COMPILER = re.compile(
    r"unable to execute '?([\w.+-]+)'?: No such file"
    r"|command '?([\w./+-]*?(?:cc|\+\+|clang|gfortran|cargo|cmake|swig))'? failed: No such file"
    r"|error: command '([\w./+-]+)' failed: No such file"
    r"|No such file or directory: '([\w./+-]*(?:gcc|cc|\+\+|clang|gfortran|cargo|cmake|swig))'"
)
LACKS = (
    (re.compile(r"fatal error: Python\.h: No such file"), "the headers of Python (python3-dev)"),
    (re.compile(r"fatal error: ([\w./+-]+\.h(?:pp)?): No such file"), "the header {0}"),
    (re.compile(r"Dependency \"?([\w.+-]+)\"? not found"), "the library {0}"),
    (
        re.compile(r"(?:No package '|Package )([\w.+-]+)'? (?:found|was not found)"),
        "the library {0}",
    ),
    (re.compile(r"ERROR: Unknown compiler\(s\)"), "a C compiler (build-essential)"),
    (
        re.compile(r"No CMAKE_C(?:XX)?_COMPILER could be found|CMAKE_C(?:XX)?_COMPILER not set"),
        "a C compiler (build-essential)",
    ),
    (re.compile(r"ERROR: Program '([\w.+-]+)'.* not found"), "the program {0}"),
    (re.compile(r"([\w-]+-config)(?: executable)? (?:not found|is required)"), "the program {0}"),
    (
        re.compile(
            r"(?:rust|cargo)\b.{0,60}(?:not installed|is not on PATH|not found)"
            r"|can't find Rust compiler",
            re.S | re.I,
        ),
        "Rust (cargo)",
    ),
    (
        re.compile(r"Could not find CMake\b|Problem with the CMake installation"),
        "the program cmake",
    ),
    (re.compile(r"cannot find -l([\w.+-]+)"), "the library {0}"),
    (
        re.compile(r"CMAKE_Fortran_COMPILER (?:could be found|not set)"),
        "a Fortran compiler (gfortran)",
    ),
    (
        re.compile(
            r"(?:requires|needs) rustc (\d[\w.]{0,20})"
            r"|lock file version `?\d+`? (?:requires|was found, but this version of Cargo)"
        ),
        "a newer Rust",
    ),
    (
        re.compile(
            r"[Ff]ailed to (?:download|fetch|get|query|update)[^\n]{0,80}\bcrates[.-]io\b"
            r"|Unable to update registry `crates-io`"
        ),
        "Rust crates (crates.io does not answer)",
    ),
)


def find_culprits(output: str) -> set[str]:
    """The packages that uv names when it gives up, normalised."""
    return {normalise_name(name) for pattern in CULPRITS for name in re.findall(pattern, output)}


def find_lacking(output: str) -> str:
    """What a build lacks on this system, in words; empty where that is not the failure."""
    compiler = COMPILER.search(output)
    if compiler:
        return "the program " + next(filter(None, compiler.groups()))
    for pattern, words in LACKS:
        match = pattern.search(output)
        if match:
            return words.format(*match.groups())
    return ""


WHY = (
    (r"{name}`? was not found in the", "the package index does not have it"),
    (r"all versions of {name} have no|wheels are required for `{name}`", "it has no wheel here"),
    (r"no versions? of {name}\b", "the package index has no such version"),
    (r"only {name}\S* (?:is|are) available", "the package index has no such version"),
    (r"failed to build `{name}(?:==|`| @)", "it cannot be built here"),
    (r"{name}\S* depends? on", "it does not fit the other packages"),
)
"""What uv prints about a package, and the same as the end of a sentence; the first match counts."""


def explain_missing(requirement: str, output: str) -> str:
    """Why `requirement` could not be installed, as one clause; nothing that a package printed."""
    lacking = find_lacking(output)
    name = re.sub(r"-", "[-_.]", re.escape(name_of(requirement)).replace("\\-", "-"))
    told = " ".join(re.sub(r"[│├╰─▶×]", " ", output).split())
    for pattern, why in WHY:
        if re.search(pattern.format(name=name), told, re.IGNORECASE):
            if lacking and "built" in why:
                return f"building it needs {lacking}, which the sandbox lacks"
            return why
    return "it cannot be installed here"


def last_line(output: str) -> str:
    """The last line that says something, without uv's drawing."""
    lines = [re.sub(r"^[\s│├╰─▶×]+", "", line).strip() for line in output.splitlines()]
    kept = [line for line in lines if line and not line.startswith("hint:")]
    return kept[-1][:300] if kept else ""


ROUNDS = 12
LATER_DATES = (45, 365)
"""How many days later everything may be, where it cannot be resolved as of the date."""
MARGIN = datetime.timedelta(days=30)


class Resolver:
    """Installs requirements with `uv`; `left_out` collects those that could not be had."""

    def __init__(self, uv: Uv, nearest: datetime.date | None = None) -> None:
        """`nearest`: the day for `install_nearest`."""
        self.uv = uv
        self.nearest = nearest
        self.left_out: dict[str, str] = {}
        self.output = ""
        """The last thing that uv printed."""

    def install(self, needs: Sequence[str], tests: Sequence[str]) -> bool:
        """Install `needs`, without which nothing runs, together with what the tests want.

        One package alone may be newer than the date: it was not out yet, or its files were
        uploaded anew. What the tests want and cannot be built, or is nowhere, is left out by name;
        anything else is a matter of dates.
        """
        tests = [one for one in tests if one not in self.left_out]
        if not (needs or tests):
            return True
        dates: list[datetime.date | None] = [self.uv.latest]
        if self.uv.latest:
            first = self.uv.latest
            dates += [first + datetime.timedelta(days=days) for days in LATER_DATES]
        for _ in range(ROUNDS):
            self.uv.latest = dates[0]
            if self.install_listed([*needs, *tests]):
                return True
            if self.let_later():
                continue
            kept, dropped = without(tests, sorted(find_culprits(self.output)))
            if dropped and (len(dates) == 1 or "ailed to build" in self.output):
                self.leave_out(dropped, self.output)
                tests = kept
            elif len(dates) > 1:
                dates.pop(0)
            else:
                break
        return self.install_apart(needs, tests)

    def install_nearest(self, requirements: Sequence[str]) -> bool:
        """Whether the nearest day has wheels of everything; then it is the day of the environment.

        Nothing is built: the sources of that day often do not build on a young Python, after
        minutes.
        """
        if self.nearest is None or not requirements:
            return False
        latest, self.uv.latest = self.uv.latest, self.nearest
        if self.install_listed(requirements, "--only-binary", ":all:"):
            return True
        self.uv.latest = latest
        return False

    def install_apart(self, needs: Sequence[str], tests: Sequence[str]) -> bool:
        """The package's own needs alone, then what can be had of the rest."""
        if needs and not self.install_listed(needs):
            return False
        failure = self.output
        for one in tests:
            if not self.install_listed([*needs, one]):
                self.leave_out([one], self.output)
        self.output = failure
        return True

    def install_listed(self, requirements: Sequence[str], *options: str) -> bool:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as listed:
            listed.write("".join(f"{one}\n" for one in requirements))
            listed.flush()
            show_line("requirements: " + ", ".join(requirements)[:2000])
            done, self.output = self.uv.install(
                [*options, "-r", listed.name], typed=[*options, *requirements]
            )
        return done

    def let_later(self) -> bool:
        """Whether a package that uv filtered by its date may now be later."""
        if not self.uv.latest:
            return False
        found = False
        for name in sorted(set(FILTERED.findall(self.output)) - set(self.uv.later)):
            day = next_upload(name, self.uv.latest)
            if day:
                self.uv.later[name] = (day + MARGIN).isoformat()
                found = True
        return found

    def leave_out(self, requirements: Sequence[str], output: str) -> None:
        """`output`: what uv printed when it refused them."""
        for one in requirements:
            self.left_out[one] = explain_missing(one, output)
            show_line(f"left out: {one} ({self.left_out[one]})")


def read_installed(uv: Uv) -> list[str]:
    """All that is installed, `name==version`."""
    done, output = uv.run([UV, "pip", "list", "--format=freeze", "--python", PYTHON], seconds=60)
    return sorted(line for line in output.splitlines() if done and "==" in line)


def is_installed(uv: Uv, module: str) -> bool:
    """Whether Python finds `module`; it is not imported, which takes setuptools long."""
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return uv.run([PYTHON, "-c", find], seconds=60, cwd="/")[0]
