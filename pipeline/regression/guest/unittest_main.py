"""`python -m unittest` that runs the wanted tests only, and records how each one goes."""

from __future__ import annotations

import sys
import time
import unittest
from collections.abc import Iterator
from typing import Any

from .functions import FunctionTracer
from .record import CollectionFilter, relative_path, stable_name, write

_FILTER = CollectionFilter()
_TRACER = FunctionTracer()


class RecordingResult(unittest.TextTestResult):
    _began = 0.0
    _tracing = False
    _outcome = ""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        write("start", stable_name(test.id()), relative_path(_source_file(test)), time.time())
        self._outcome = "passed"
        self._began = time.perf_counter()
        self._tracing = _FILTER.functions and _TRACER.begin()

    def stopTest(self, test: unittest.TestCase) -> None:
        name = stable_name(test.id())
        if self._tracing:
            _TRACER.end(name)
        write("phase", name, "call", self._outcome, time.perf_counter() - self._began)
        super().stopTest(test)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._outcome = "failed"
        if not hasattr(test, "_testMethodName"):  # setUpClass or setUpModule: no test began
            write("collect", stable_name(test.id()))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._outcome = "failed"

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._outcome = "failed"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._outcome = "skipped"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._outcome = "failed"


class FilteringRunner(unittest.TextTestRunner):
    def _makeResult(self) -> RecordingResult:
        return RecordingResult(self.stream, self.descriptions, self.verbosity)

    def run(self, test: Any) -> Any:
        if _FILTER.tests is None and _FILTER.files is None:
            return super().run(test)
        kept = [
            one
            for one in _flatten(test)
            if _FILTER.accepts_test(one.id()) and _FILTER.accepts_file(_source_file(one))
        ]
        return super().run(unittest.TestSuite(kept))


def _source_file(test: Any) -> str:
    return getattr(sys.modules.get(type(test).__module__), "__file__", "") or ""


def _flatten(suite: Any) -> Iterator[Any]:
    if isinstance(suite, unittest.TestSuite):
        for one in suite:
            yield from _flatten(one)
    else:
        yield suite


if __name__ == "__main__":
    sys.argv[0] = "python -m unittest"
    unittest.main(module=None, testRunner=FilteringRunner)
