"""What each test took in an earlier run: it sets the order, and the marks `slow` and `short`.

`tests/durations.json` maps folders to test functions to seconds, all cases of a function together.
New functions, and those faster than `KEPT_SECONDS`, are not in it and count as fast. A full run
with `--store-durations` writes it (`make durations`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

FILE: Final = Path(__file__).parents[1] / "durations.json"
KEPT_SECONDS: Final = 0.1
SLOW_SECONDS: Final = 2.0
SHORT_FOLDERS: Final = (
    "tests/unit/",
    "tests/machines/",
    "tests/doors/",
    "tests/contracts/github/",
    "tests/contracts/github_client/",
    "tests/contracts/models/",
    "tests/contracts/store/",
)
"""`make test` runs all of these but what is slow, and the `spine` of other folders."""


class Durations:
    """A plugin of pytest."""

    def __init__(self, file: Path, *, store: bool) -> None:
        self._file = file
        self._store = store
        text = file.read_text(encoding="utf-8") if file.exists() else "{}"
        self._known: dict[str, dict[str, float]] = json.loads(text)
        self._measured: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Set the marks before `-m` chooses by them, and put files that take long first."""
        files: dict[Path, dict[tuple[str, str], float]] = defaultdict(dict)
        for item in items:
            folder, function = _make_key(item.nodeid)
            seconds = self._known.get(folder, {}).get(function, 0.0)
            files[item.path][folder, function] = seconds
            slow = seconds >= SLOW_SECONDS
            if slow:
                item.add_marker("slow")
            if item.get_closest_marker("spine") or (
                not slow and item.nodeid.startswith(SHORT_FOLDERS)
            ):
                item.add_marker("short")
        totals = {path: sum(functions.values()) for path, functions in files.items()}
        items.sort(key=lambda item: -totals[item.path])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder, function = _make_key(report.nodeid)
        self._measured[folder][function] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace the folders that were measured."""
        if not self._store:
            return
        for folder, functions in self._measured.items():
            kept = {name: round(s, 1) for name, s in functions.items() if s >= KEPT_SECONDS}
            self._known[folder] = kept
        text = json.dumps(self._known, indent=1, sort_keys=True)
        self._file.write_text(text + "\n", encoding="utf-8")


def _make_key(nodeid: str) -> tuple[str, str]:
    """The two upper folders and the function: both stay when a file is merged into another."""
    path, _, name = nodeid.partition("::")
    return "/".join(path.split("/")[1:-1][:2]), name.partition("[")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help=f"write {FILE.name}")


def pytest_configure(config: pytest.Config) -> None:
    store = bool(config.getoption("store_durations")) and not hasattr(config, "workerinput")
    config.pluginmanager.register(Durations(FILE, store=store))
