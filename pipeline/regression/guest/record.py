"""Writes what happens to each test, one JSON line at a time, so that a crash loses nothing."""

from __future__ import annotations

import json
import os
import re
from typing import Any

_ENVIRONMENT = os.environ  # runs inside the sandbox, where the wrapper sets these
FOLDER = _ENVIRONMENT.get("CAPUCHIN_RECORDS", "")
ROOT = _ENVIRONMENT.get("CAPUCHIN_ROOT", "")
LONGEST = 500
"""Characters of a test's name."""

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_CLOCK = re.compile(r"\d{1,2}:\d\d:\d\d(?:\.\d+)?")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def stable_name(name: str) -> str:
    """A test's name on one line, without addresses of objects and times of day.

    Those differ from run to run.
    """
    name = _CLOCK.sub("0:00:00", _ADDRESS.sub("0x", name))
    return _UNPRINTABLE.sub(lambda m: ascii(m.group())[1:-1], name)[:LONGEST]


def write(kind: str, *values: Any) -> None:
    """Append one line. The file is opened each time: tests close descriptors and fork."""
    if not FOLDER:
        return
    data = json.dumps([kind, *values]).encode() + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        file = os.open(os.path.join(FOLDER, "records"), flags, 0o600)
        try:
            os.write(file, data)
        finally:
            os.close(file)
    except OSError:
        return  # a test without files, or a full disk: what is missing counts as not passed


def relative_path(path: Any) -> str:
    """`path` from the root of the checkout; empty for one outside of it."""
    full = os.path.realpath(str(path))
    root = os.path.realpath(ROOT) + os.sep
    return full[len(root) :].replace(os.sep, "/") if full.startswith(root) else ""


def _read_request() -> dict[str, Any]:
    try:
        with open(os.path.join(FOLDER, "wanted.json"), encoding="ascii") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (OSError, ValueError):
        return {}


class CollectionFilter:
    """Which tests are to be run."""

    def __init__(self) -> None:
        request = _read_request()
        self.tests = None if request.get("tests") is None else frozenset(request["tests"])
        self.files = None if request.get("files") is None else frozenset(request["files"])
        self.functions = bool(request.get("functions"))

    def accepts_test(self, name: str) -> bool:
        if self.tests is None:
            return True
        # pytest-xdist puts @group behind names in its workers only.
        return stable_name(name) in self.tests or stable_name(name.rpartition("@")[0]) in self.tests

    def accepts_file(self, path: Any) -> bool:
        return self.files is None or relative_path(path) in self.files
