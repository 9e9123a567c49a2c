"""What uv and compilers mean when they give up."""

from __future__ import annotations

import re

from sandbox.guest.installer.index import normalise_name

CULPRITS = (
    r"[Ff]ailed to build `([\w.-]+?)(?:==|`| @)",
    r"Because ([\w.-]+) was not found",
    r"there (?:is|are) no versions? of ([\w.-]+)",
    r"all versions of ([\w.-]+) have no",
    r"Wheels are required for `([\w.-]+)`",
    r"only ([\w.-]+?)(?:\[[^\]]*\])?[<>=]",
    r"[Ff]ailed to (?:download|read|fetch|prepare)[^`]*`([\w.-]+?)(?:==|`| @)",
)
DEPENDENT = re.compile(r"([A-Za-z][\w.-]*?)(?:[<>=!]=?[^\s,]+)? depends? on ")
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
        "crates of Rust (their index does not answer from here)",
    ),
)


def find_culprits(output: str) -> set[str]:
    """The packages that uv names when it gives up, normalised."""
    return {normalise_name(name) for pattern in CULPRITS for name in re.findall(pattern, output)}


def find_dependents(output: str) -> set[str]:
    """The packages whose dependencies uv complains about, normalised."""
    return {normalise_name(name) for name in DEPENDENT.findall(output)}


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


def last_line(output: str) -> str:
    """The last line that says something, without uv's drawing."""
    lines = [re.sub(r"^[\s│├╰─▶×]+", "", line).strip() for line in output.splitlines()]
    kept = [line for line in lines if line and not line.startswith("hint:")]
    return kept[-1][:300] if kept else ""
