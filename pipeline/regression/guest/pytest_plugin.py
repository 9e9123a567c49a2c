"""The pytest plugin: runs the wanted tests only, and records how each one goes."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any

import pytest

from .functions import FunctionTracer
from .record import CollectionFilter, relative_path, stable_name, write

_FILTER = CollectionFilter()
_TRACER = FunctionTracer()
_WORKER = "PYTEST_XDIST_WORKER" in os.environ  # the controller repeats its reports


def _is_ignored(path: Any) -> bool | None:
    name = os.path.basename(str(path))
    if os.path.isdir(str(path)) or name in ("__init__.py", "conftest.py"):
        return None
    return None if _FILTER.accepts_file(path) else True


def _ignore_path(collection_path: Any) -> bool | None:
    return _is_ignored(collection_path)


def _ignore_old_path(path: Any) -> bool | None:
    return _is_ignored(path)


# pytest passes what a hook's parameters name, and has renamed this one.
_NEW = int(pytest.__version__.split(".")[0]) >= 7
pytest_ignore_collect = _ignore_path if _NEW else _ignore_old_path


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    kept = [item for item in items if _FILTER.accepts_test(item.nodeid)]
    if len(kept) < len(items):
        wanted = {id(item) for item in kept}
        config.hook.pytest_deselected(items=[i for i in items if id(i) not in wanted])
        items[:] = kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, None, None]:
    name = stable_name(item.nodeid)
    write("start", name, relative_path(getattr(item, "path", None) or item.fspath), time.time())
    tracing = _FILTER.functions and _TRACER.begin()
    yield
    if tracing:
        _TRACER.end(name)


def pytest_runtest_logreport(report: Any) -> None:
    if not _WORKER:
        outcome = "xfail" if hasattr(report, "wasxfail") else report.outcome
        write("phase", stable_name(report.nodeid), report.when, outcome, report.duration)


def pytest_collectreport(report: Any) -> None:
    if report.failed and not _WORKER:
        write("collect", stable_name(report.nodeid))
