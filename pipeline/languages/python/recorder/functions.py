"""Records which of the repository's functions a test runs, by file and first line."""

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from .record import ROOT, write

_SKIPPED = ("site-packages", "dist-packages", ".tox", ".venv", "node_modules")


class FunctionTracer:
    """Observes every call between `begin` and `end`, unless another tracer is active."""

    def __init__(self) -> None:
        self._seen: dict[int, CodeType] = {}
        self._numbers: dict[int, tuple[CodeType, int]] = {}
        self._root = os.path.realpath(ROOT) + os.sep

    def begin(self) -> bool:
        if sys.gettrace() is not None:
            return False
        self._seen = {}
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        return True

    def end(self, name: str) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # typeshed wants a function before 3.12
        seen = [self._number(code) for code in list(self._seen.values())]
        write("ran", name, os.getpid(), [number for number in seen if number])

    def _trace(self, frame: FrameType, event: str, value: Any) -> None:  # noqa: ARG002
        code = frame.f_code
        self._seen[id(code)] = code  # by identity: a code object's hash reads all of it

    def _number(self, code: CodeType) -> int:
        """The function's number; 0 outside the repository."""
        known = self._numbers.get(id(code))
        if known is not None and known[0] is code:
            return known[1]
        path = os.path.realpath(code.co_filename)
        number = 0
        made = code.co_filename.startswith("<")  # not from a file: it would seem to lie in the root
        if not made and path.startswith(self._root) and not any(part in path for part in _SKIPPED):
            number = len(self._numbers) + 1
            where = path[len(self._root) :].replace(os.sep, "/")
            write("function", os.getpid(), number, where, code.co_firstlineno)
        self._numbers[id(code)] = (code, number)
        return number
