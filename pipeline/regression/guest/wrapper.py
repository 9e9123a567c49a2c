"""Runs a test command and prints, behind its output, what was recorded of it, between marks.

Started by `python -c` inside the sandbox, so it imports nothing of ours.
"""

from __future__ import annotations

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
from typing import Any

MOST_RECORDS = 64 * 1024 * 1024
"""Bytes of records that are read."""
MOST_SENT = 6 * 1024 * 1024
"""Bytes of records as printed, and of all documents."""
MOST_XML = 32 * 1024 * 1024
_SKIPPED = {".git", "node_modules", ".tox", ".venv"}


def main() -> None:
    request = json.loads(zlib.decompress(base64.b64decode("".join(sys.argv[1:]))))
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        environment = _prepare(request, folder)
        end = _run(request, environment)
        sys.stdout.flush()
        _send(request["mark"], "records", _read_records(folder), MOST_SENT)
        left = MOST_SENT
        for document in _find_documents(folder, began - 1):
            left -= _send(request["mark"], "junit", document, left)
        _send(request["mark"], "end", json.dumps(end).encode(), MOST_SENT)
    sys.exit(end["code"] if end["code"] is not None else 128)


def _prepare(request: dict[str, Any], folder: str) -> dict[str, str]:
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
    if request["junit"]:
        report = "--junitxml=" + os.path.join(folder, "junit.xml")
        environment["PYTEST_ADDOPTS"] = environment.get("PYTEST_ADDOPTS", "") + " " + report
    return environment


def _run(request: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    argv = request["argv"]
    program = sys.executable if argv[0] in ("python", "python3") else argv[0]
    began = time.time()
    try:
        process = subprocess.Popen(
            [program] + argv[1:],
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        sys.stdout.write("%s: %s\n" % (argv[0], error.strerror))
        return {"code": 127, "signal": None, "timeout": False, "began": began}
    timeout = False
    try:
        code = process.wait(timeout=request["seconds"])
    except subprocess.TimeoutExpired:
        timeout = True
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return {
        "code": code if code >= 0 and not timeout else None,
        "signal": -code if code < 0 and not timeout else None,
        "timeout": timeout,
        "began": began,
    }


def _read_records(folder: str) -> bytes:
    """What was recorded: without the functions, if that is too much with them."""
    try:
        with open(os.path.join(folder, "records"), "rb") as file:
            data = file.read(MOST_RECORDS)
    except OSError:
        return b""
    if len(zlib.compress(data)) * 4 // 3 <= MOST_SENT:
        return data
    lines = data.split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith((b'["ran"', b'["function"')))


def _find_documents(folder: str, since: float) -> list[bytes]:
    """The JUnit files that the command wrote."""
    found: list[bytes] = []
    left = MOST_XML
    for top, folders, names in itertools.chain(os.walk(folder), os.walk(os.getcwd())):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in names:
            path = os.path.join(top, name)
            document = _read_document(path, since, left) if name.endswith(".xml") else b""
            if document:
                found.append(document)
                left -= len(document)
    return found[:50]


def _read_document(path: str, since: float, most: int) -> bytes:
    try:
        facts = os.lstat(path)
        if facts.st_mtime < since or facts.st_size > most or not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            data = file.read(most)
    except OSError:
        return b""
    return data if b"<testsuite" in data[:4096] else b""


def _send(mark: str, kind: str, data: bytes, most: int) -> int:
    text = base64.b64encode(zlib.compress(data)).decode("ascii")
    if len(text) > most:
        return 0
    sys.stdout.write("\n%s %s %s\n" % (mark, kind, text))
    sys.stdout.flush()
    return len(text)


if __name__ == "__main__":
    main()
