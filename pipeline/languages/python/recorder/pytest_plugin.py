"""A pytest plugin that runs only the wanted tests and records each outcome."""

import os
from collections.abc import Generator
from typing import Any

import pytest

from .functions import FunctionTracer
from .record import CollectionFilter, Stopwatch, lacks_network, relative_path, write
from .test_names import stable_name

_FILTER = CollectionFilter()
_TRACER = FunctionTracer()
_WATCH = Stopwatch()
_WORKER = "PYTEST_XDIST_WORKER" in os.environ  # the controller repeats its reports
_NAMES: "dict[str, str]" = {}
_OVERRIDDEN: "dict[str, Any]" = {
    # Report every broken test.
    "maxfail": 0,
    # A crashing process reports nothing; its records are out of order.
    "numprocesses": None,
    "dist": "no",
    "tx": [],
    "distload": False,
    "looponfail": False,
    # Nobody answers a debugger; the last failures only, or a list, are no result.
    "usepdb": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "collectonly": False,
    "setuponly": False,
    "setupplan": False,
    # pytest-timeout measures wall time, which is longer on a busy host.
    "timeout": 0,
}
"""Options that a repository sets for people and that make results unreadable, each with our value.
The rest of its `addopts` stays."""
_MOST_EXPLAINED = 50
"""Failures that are shown with their source, the later ones by their error alone: for each, pytest
parses its whole file again, which takes a tenth of a second where that is long."""
_STYLES_WITH_SOURCE = ("auto", "long", "short")
_EXPLAINED: "list[str]" = []


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> "Generator[None, None, None]":
    options = early_config.known_args_namespace
    if getattr(options, "cov_source", None):  # pytest-cov traces, too
        options.cov_source = []
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: Any) -> "Generator[None, None, None]":
    for name, value in _OVERRIDDEN.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    # pytest-randomly draws another order for each run; a repeated run has its own, too.
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = int(os.environ.get("PYTHONHASHSEED", "0"))
    yield


def _name(node: Any) -> str:
    """A node's id relative to the checkout's root, independent of pytest's root."""
    path = relative_path(_path(node))
    rest = node.nodeid.partition("::")[2]
    name = stable_name("::".join(filter(None, (path, rest))) if path else node.nodeid)
    return name.replace("::()::", "::")  # pytest before 4


def _path(node: Any) -> Any:
    return getattr(node, "path", None) or getattr(node, "fspath", "")


def _report_name(report: Any) -> str:
    return _NAMES.get(report.nodeid) or stable_name(report.nodeid).replace("::()::", "::")


def _is_ignored(path: Any) -> "bool | None":
    name = os.path.basename(str(path))
    if os.path.isdir(str(path)) or name in ("__init__.py", "conftest.py"):
        return None
    return None if _FILTER.accepts_file(path) else True


def _ignore_path(collection_path: Any) -> "bool | None":
    return _is_ignored(collection_path)


def _ignore_old_path(path: Any) -> "bool | None":
    return _is_ignored(path)


# pytest passes arguments by the names of a hook's parameters, and has renamed this one.
_NEW = int(pytest.__version__.split(".")[0]) >= 7
pytest_ignore_collect = _ignore_path if _NEW else _ignore_old_path


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: "list[Any]") -> None:
    kept = [item for item in items if _FILTER.accepts_test(_name(item), _path(item))]
    if len(kept) < len(items):
        wanted = {id(item) for item in kept}
        config.hook.pytest_deselected(items=[i for i in items if id(i) not in wanted])
    items[:] = sorted(kept, key=lambda item: _FILTER.place_of(_path(item)))
    write("collected", len(kept))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> "Generator[None, None, None]":
    name = _NAMES[item.nodeid] = _name(item)
    write("start", name, relative_path(_path(item)), _WATCH.date())
    tracing = _FILTER.functions and _TRACER.begin()
    _WATCH.lap()
    yield
    if tracing:
        _TRACER.end(name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> "Generator[None, Any, None]":
    options, style = item.config.option, getattr(item.config.option, "tbstyle", None)
    if style in _STYLES_WITH_SOURCE and len(_EXPLAINED) >= _MOST_EXPLAINED:
        options.tbstyle = "line"
    made = yield
    options.tbstyle = style
    if call.excinfo is not None:  # of a unittest.TestCase, pytest sets it only now
        write("raised", _name(item), call.excinfo.type.__name__)
        if lacks_network(call.excinfo.value):
            write("network", _name(item))
    if made.get_result().failed:
        _EXPLAINED.append(item.nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    if not _WORKER:
        outcome = "xfail" if hasattr(report, "wasxfail") else report.outcome
        # With xdist, another process ran it.
        seconds = report.duration if hasattr(report, "node") else _WATCH.lap()
        write("phase", _report_name(report), report.when, outcome, seconds)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: Any) -> "Generator[None, None, None]":
    if collector.nodeid:
        _NAMES[collector.nodeid] = _name(collector)
    yield


def pytest_collectreport(report: Any) -> None:
    if report.failed and not _WORKER:
        write("collect", _report_name(report))
