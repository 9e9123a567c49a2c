"""Records the outcomes of unittest's tests under any runner, and runs only the wanted ones."""

import sys
import unittest
from collections.abc import Iterator
from typing import Any

from .functions import FunctionTracer
from .record import CollectionFilter, Stopwatch, lacks_network, relative_path, write
from .test_names import stable_name

_FILTER = CollectionFilter()
_WATCH = Stopwatch()


class _Current:
    """The current test. Tests of test runners start others inside, which are not recorded."""

    def __init__(self) -> None:
        self.result: Any = None
        self.outcome = ""
        self.tracing = False
        self.tracer = FunctionTracer()


_CURRENT = _Current()


def install() -> None:
    """Wrap the methods that report outcomes to results; runners' own result classes call them
    too."""
    result = unittest.TestResult
    _wrap(result, "startTest", _begin)
    _wrap(result, "stopTest", _end)
    _wrap(result, "addError", _add_error)
    _wrap(result, "addFailure", _fail)
    _wrap(result, "addSubTest", _add_sub_test)
    _wrap(result, "addSkip", _add_skip)
    _wrap(result, "addExpectedFailure", _add_expected_failure)
    _wrap(result, "addUnexpectedSuccess", _add_unexpected_success)
    original = unittest.TextTestRunner.run

    def run(self: Any, test: Any) -> Any:
        # Django's runner has an order of its own, by what a test does to the database.
        if type(self) is unittest.TextTestRunner:
            found = sorted(_flatten(test), key=lambda one: _FILTER.place_of(_source_file(one)))
            test = unittest.TestSuite(found)
        if _FILTER.tests is not None or _FILTER.files is not None:
            test = unittest.TestSuite(list(_select_tests(test)))
        if isinstance(test, unittest.TestSuite):
            write("collected", test.countTestCases())
        return original(self, test)

    unittest.TextTestRunner.run = run  # type: ignore[method-assign]


def _wrap(owner: Any, name: str, hook: Any) -> None:
    original = getattr(owner, name)

    def method(self: Any, *args: Any) -> Any:
        found = original(self, *args)
        hook(self, *args)
        return found

    setattr(owner, name, method)


def _begin(result: Any, test: Any) -> None:
    if _CURRENT.result is not None:
        return
    _CURRENT.result = result
    name = stable_name(test.id())
    write("start", name, relative_path(_source_file(test)), _WATCH.date())
    title = test.shortDescription() if hasattr(test, "shortDescription") else None
    if title:
        write("title", name, stable_name(title))
    _CURRENT.outcome = "passed"
    _CURRENT.tracing = _FILTER.functions and _CURRENT.tracer.begin()
    _WATCH.lap()


def _end(result: Any, test: Any) -> None:
    if _CURRENT.result is not result:
        return
    seconds = _WATCH.lap()
    name = stable_name(test.id())
    if _CURRENT.tracing:
        _CURRENT.tracer.end(name)
    write("phase", name, "call", _CURRENT.outcome, seconds)
    _CURRENT.result = None


def _add_error(result: Any, test: Any, err: Any) -> None:
    if _CURRENT.result is None and not hasattr(test, "_testMethodName"):
        # setUpClass or setUpModule: no test started.
        write("collect", stable_name(test.id()))
    _fail(result, test, err, "error")


def _add_sub_test(result: Any, test: Any, _part: Any, err: Any) -> None:
    if err is not None:
        failure = getattr(test, "failureException", AssertionError)
        _fail(result, test, err, "failed" if issubclass(err[0], failure) else "error")


def _add_skip(result: Any, _test: Any, _reason: str) -> None:
    if _CURRENT.result is result and _CURRENT.outcome == "passed":
        _CURRENT.outcome = "skipped"


def _add_expected_failure(result: Any, _test: Any, _err: Any) -> None:
    # No result: an edit that mends it makes it an unexpected success, and must not appear to break
    # it.
    if _CURRENT.result is result and _CURRENT.outcome == "passed":
        _CURRENT.outcome = "xfail"


def _add_unexpected_success(result: Any, _test: Any) -> None:
    if _CURRENT.result is result:
        _CURRENT.outcome = "failed"


def _fail(result: Any, test: Any, err: Any, outcome: str = "failed") -> None:
    if _CURRENT.result is not result:
        return
    _CURRENT.outcome = outcome
    write("raised", stable_name(test.id()), err[0].__name__)
    if lacks_network(err[1]):
        write("network", stable_name(test.id()))


def _select_tests(test: Any) -> "Iterator[Any]":
    for one in _flatten(test):
        file = _source_file(one)
        if _FILTER.accepts_test(one.id(), file) and _FILTER.accepts_file(file):
            yield one


def _source_file(test: Any) -> str:
    return getattr(sys.modules.get(type(test).__module__), "__file__", "") or ""


def _flatten(suite: Any) -> "Iterator[Any]":
    if isinstance(suite, unittest.TestSuite):
        for one in suite:
            yield from _flatten(one)
    else:
        yield suite
