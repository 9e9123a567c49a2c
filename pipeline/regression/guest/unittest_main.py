"""`python -m unittest` that runs the wanted tests only, and records how each one goes."""

from __future__ import annotations

import sys
import time
import unittest
from collections.abc import Iterator
from typing import Any

from .functions import Functions
from .record import Wanted, relative, stable, write

_WANTED = Wanted()
_FUNCTIONS = Functions()


class Result(unittest.TextTestResult):
    _began = 0.0
    _seeing = False
    _outcome = ""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        write("start", stable(test.id()), relative(_file(test)), time.time())
        self._outcome = "passed"
        self._began = time.perf_counter()
        self._seeing = _WANTED.functions and _FUNCTIONS.begin()

    def stopTest(self, test: unittest.TestCase) -> None:
        name = stable(test.id())
        if self._seeing:
            _FUNCTIONS.end(name)
        write("phase", name, "call", self._outcome, time.perf_counter() - self._began)
        super().stopTest(test)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._outcome = "failed"
        if not hasattr(test, "_testMethodName"):  # setUpClass or setUpModule: no test began
            write("collect", stable(test.id()))

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


class Runner(unittest.TextTestRunner):
    def _makeResult(self) -> Result:
        return Result(self.stream, self.descriptions, self.verbosity)

    def run(self, test: Any) -> Any:
        if _WANTED.tests is None and _WANTED.files is None:
            return super().run(test)
        kept = [one for one in _each(test) if _WANTED.test(one.id()) and _WANTED.file(_file(one))]
        return super().run(unittest.TestSuite(kept))


def _file(test: Any) -> str:
    return getattr(sys.modules.get(type(test).__module__), "__file__", "") or ""


def _each(suite: Any) -> Iterator[Any]:
    if isinstance(suite, unittest.TestSuite):
        for one in suite:
            yield from _each(one)
    else:
        yield suite


if __name__ == "__main__":
    sys.argv[0] = "python -m unittest"
    unittest.main(module=None, testRunner=Runner)
