"""Runs a test command and prints its recorded results after its output, between marks.

The sandbox starts it by `python -c`, so it imports none of our modules; the text of
`sandbox.guest.supervisor.time_limit` precedes it.
"""

import base64
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:  # at each run of a test it would take as long to import as Python to start
    from typing import Any

    from sandbox.guest.supervisor.time_limit import IDLE, IDLE_WINDOW, TimeLimit

MOST_RECORDS = 64 * 1024 * 1024
"""Bytes of records that are read."""
MOST_SENT = 6 * 1024 * 1024
"""Bytes of printed records, and of all documents."""
MOST_FILES = 5000
"""Reports: Maven and Gradle write one for each class of tests."""
PROGRESS_SECONDS = 2
"""Between two lines of progress."""
PR_SET_DUMPABLE = 4
_SKIPPED = {".git", "node_modules", ".tox", ".venv"}


def main() -> None:
    _protect_memory()
    request = json.loads(zlib.decompress(base64.b64decode("".join(sys.argv[1:]))))
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        environment = _prepare(request, folder)
        end = _run(request, environment, _Progress(request, folder))
        sys.stdout.flush()
        _send(request["mark"], "records", _read_records(folder), MOST_SENT)
        left = MOST_SENT
        for document in _find_documents(folder, began - 1):
            left -= _send(request["mark"], "junit", document, left)
        _send(request["mark"], "end", json.dumps(end).encode(), MOST_SENT)
    sys.exit(end["code"] if end["code"] is not None else 128)


def _protect_memory() -> None:
    """Keep the tests, which have our user, from opening our memory in /proc."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # a Python without ctypes


def _prepare(request: "dict[str, Any]", folder: str) -> "dict[str, str]":
    package = os.path.join(folder, "capuchin_inside")
    os.mkdir(package)
    files = {os.path.join(package, name): text for name, text in request["files"].items()}
    files[os.path.join(folder, "wanted.json")] = json.dumps(request["wanted"])
    for path, text in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    environment = dict(os.environ)  # the program's own, inside the sandbox
    paths = [folder, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment["CAPUCHIN_RECORDS"] = folder
    environment["CAPUCHIN_ROOT"] = os.getcwd()
    for name, value in request["variables"].items():
        environment[name] = value.replace("{report}", folder)
    if request["addopts"]:
        options = request["addopts"].replace("{folder}", folder)
        environment["PYTEST_ADDOPTS"] = environment.get("PYTEST_ADDOPTS", "") + " " + options
    return environment


def _run(
    request: "dict[str, Any]", environment: "dict[str, str]", progress: "_Progress"
) -> "dict[str, Any]":
    argv = request["argv"]
    program = sys.executable if argv[0] in ("python", "python3") else argv[0]
    began = time.time()
    try:
        process = subprocess.Popen([program] + argv[1:], env=environment, start_new_session=True)
    except OSError as error:
        sys.stdout.write("%s: %s\n" % (argv[0], error.strerror))
        return {"code": 127, "signal": None, "timeout": False, "began": began}
    limit = _wait(process, request["seconds"], request.get("wall"), progress)
    if limit:
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    return {
        "code": code if code >= 0 and not limit else None,
        "signal": -code if code < 0 and not limit else None,
        "timeout": bool(limit),
        "limit": limit,
        "began": began,
    }


def _wait(
    process: "subprocess.Popen[bytes]", seconds: float, most: "float | None", progress: "_Progress"
) -> str:
    """Wait for the end; return the limit that was reached: `most` seconds of wall time, or one of
    the sandbox's."""
    began = time.monotonic()
    limit = TimeLimit(seconds, root=process.pid)
    while True:
        try:
            process.wait(timeout=limit.pause)
        except subprocess.TimeoutExpired:
            wall = time.monotonic() - began
        else:
            return ""
        progress.print_count(wall)
        if most is not None and wall >= most:
            return "run time"
        met = limit.find_exceeded()
        if met == IDLE and wall - progress.at < min(seconds, IDLE_WINDOW):
            continue  # its tests only sleep
        if met:
            return met


class _Progress:
    """Prints how many tests have begun, of how many, as `mark:begun/all`; `all` is 0 if unknown."""

    def __init__(self, request: "dict[str, Any]", folder: str) -> None:
        wanted: list[str] | None = request["wanted"]["tests"]
        self._mark = request["mark"]
        self._path = os.path.join(folder, "records")
        self._all = len(wanted) if wanted is not None else 0
        self._counts_all = wanted is None
        self._begun = self._told = self._at = 0
        self._next = float(PROGRESS_SECONDS)
        self.at = 0.0
        """The wall time at which a test was last seen to begin."""

    def print_count(self, wall: float) -> None:
        if wall < self._next or self._at > MOST_RECORDS:
            return
        self._next = wall + PROGRESS_SECONDS
        try:
            with open(self._path, "rb") as file:
                file.seek(self._at)
                data = file.read(MOST_RECORDS)
        except OSError:
            return
        data = data[: data.rfind(b"\n") + 1]
        self._at += len(data)
        for line in data.split(b"\n"):
            self._begun += line.startswith(b'["start"')
            if self._counts_all and line.startswith(b'["collected"'):
                self._all = max(self._all, _read_number(line))
        if self._begun > self._told:
            self._told = self._begun
            self.at = wall
            sys.stdout.write("\n%s:%d/%d\n" % (self._mark, self._begun, self._all))
            sys.stdout.flush()


def _read_number(line: bytes) -> int:
    """The number in a record `["collected", number]`; 0 if it is not one."""
    try:
        row: Any = json.loads(line)
        return min(int(row[1]), 10**7)
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError):
        return 0


def _read_records(folder: str) -> bytes:
    """The records; without the functions if they are too large with them."""
    try:
        with open(os.path.join(folder, "records"), "rb") as file:
            data = file.read(MOST_RECORDS)
    except OSError:
        return b""
    if len(zlib.compress(data)) * 4 // 3 <= MOST_SENT:
        return data
    lines = data.split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith((b'["ran"', b'["function"')))


def _find_documents(folder: str, since: float) -> "list[bytes]":
    """The files with results by name that the command wrote."""
    found: list[bytes] = []
    left = 32 * 1024 * 1024
    for top, folders, names in itertools.chain(os.walk(folder), os.walk(os.getcwd())):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in names:
            path = os.path.join(top, name)
            named = name.endswith((".xml", ".json", ".trx"))
            document = _read_document(path, since, left) if named else b""
            if document:
                place = os.path.relpath(path).replace("\n", " ").encode("utf-8", "replace")
                found.append(place + b"\n" + document)
                left -= len(document)
    return found[:MOST_FILES]


def _read_document(path: str, since: float, most: int) -> bytes:
    try:
        facts = os.lstat(path)
        if facts.st_mtime < since or facts.st_size > most or not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            data = file.read(most)
    except OSError:
        return b""
    marks = (b"<testsuite", b'"examples":', b'"testResults":', b"<TestRun")
    return data if any(mark in data[:4096] for mark in marks) else b""


def _send(mark: str, kind: str, data: bytes, most: int) -> int:
    text = base64.b64encode(zlib.compress(data)).decode("ascii")
    if len(text) > most:
        if kind == "junit":
            return 0
        text = ""  # a section that is missing could be forged
    sys.stdout.write("\n%s %s %s\n" % (mark, kind, text))
    sys.stdout.flush()
    return len(text)


if __name__ == "__main__":
    main()
