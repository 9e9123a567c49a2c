"""Records the events of each test, one JSON line at a time, so that a crash loses nothing."""

import errno
import json
import os
import socket
import time
from typing import Any

from .test_names import is_named, stable_name

_ENVIRONMENT = os.environ  # runs inside the sandbox, where the wrapper sets these
FOLDER = _ENVIRONMENT.get("CAPUCHIN_RECORDS", "")
ROOT = _ENVIRONMENT.get("CAPUCHIN_ROOT", "")


def write(kind: str, *values: Any) -> None:
    """Append one line. Opens the file each time, because tests close descriptors and fork."""
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
        return  # a test without files, or a full disk: a missing record counts as not passed


class Stopwatch:
    """Measures by the clocks that it found: tests that replace those of modules do not reach it."""

    def __init__(self) -> None:
        self.date = time.time
        self._now = time.perf_counter
        self._began = 0.0

    def lap(self) -> float:
        """Seconds since the last call."""
        now = self._now()
        seconds, self._began = now - self._began, now
        return seconds


def relative_path(path: Any) -> str:
    """`path` from the root of the checkout; empty for one outside of it."""
    full = os.path.realpath(str(path))
    root = os.path.realpath(ROOT) + os.sep
    return full[len(root) :].replace(os.sep, "/") if full.startswith(root) else ""


def _read_request() -> "dict[str, Any]":
    try:
        with open(os.path.join(FOLDER, "wanted.json"), encoding="ascii") as file:
            return json.load(file)  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return {}


_UNREACHABLE = (
    "Name or service not known",
    "Temporary failure in name resolution",
    "nodename nor servname provided",
    "Connection refused",
    "Network is unreachable",
    "No route to host",
    "Cannot assign requested address",
    "Failed to establish a new connection",
    # A display is a service, too.
    "no display name and no $DISPLAY",
    "couldn't connect to display",
    "cannot connect to X server",
    "cannot open display",
    "could not connect to display",
    "Unable to open display",
)
_UNREACHABLE_NUMBERS = (
    errno.ECONNREFUSED,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.EADDRNOTAVAIL,
)


def lacks_network(error: "BaseException | None") -> bool:
    """Whether a test failed for lack of a network, a display or a service: the sandbox has none."""
    for _ in range(20):
        if error is None:
            return False
        if isinstance(error, (socket.gaierror, socket.herror)):
            return True
        if isinstance(error, KeyError) and error.args == ("DISPLAY",):
            return True
        if isinstance(error, OSError) and error.errno in _UNREACHABLE_NUMBERS:
            return True
        try:
            words = str(error)[:5000]
        except Exception:  # noqa: BLE001 - the repository's own code
            words = ""
        if any(phrase in words for phrase in _UNREACHABLE):
            return True
        error = error.__cause__ or error.__context__
    return False


class CollectionFilter:
    """Decides which tests to run."""

    def __init__(self) -> None:
        request = _read_request()
        self.tests = None if request.get("tests") is None else frozenset(request["tests"])
        self.files = None if request.get("files") is None else frozenset(request["files"])
        self.named: dict[str, list[str]] = request.get("named") or {}
        self.functions = bool(request.get("functions"))
        wanted: list[str] = request.get("first") or request.get("files") or []
        self._places = {path: at for at, path in enumerate(wanted)}

    def place_of(self, path: Any) -> int:
        """The place of a test file among those that were asked for, the others last."""
        return self._places.get(relative_path(path), len(self._places))

    def accepts_test(self, name: str, path: Any) -> bool:
        if self.named and not is_named(stable_name(name), relative_path(path), self.named):
            return False
        if self.tests is None:
            return True
        # pytest-xdist appends @group to names only in its workers.
        return stable_name(name) in self.tests or stable_name(name.rpartition("@")[0]) in self.tests

    def accepts_file(self, path: Any) -> bool:
        return self.files is None or relative_path(path) in self.files
