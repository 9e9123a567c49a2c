"""What each test took in an earlier run: it sets the order, and the marks `short` and `nightly`.

`tests/durations.json` maps files to tests to seconds. New tests, and those faster than
`KEPT_SECONDS`, are not in it and count as fast. A run with `--store-durations` writes what it
measured (`make durations`: of all tests).

`make test` runs the short tests: of `SHORT_FOLDERS` all that are not slow, of the others the mark
`spine`, each with its first parameters. Of the nightly tests, which take long and are no `spine`,
`--tenth N` runs every tenth, so that ten runs with ten numbers run them all;
`pytest -m nightly --collect-only -q` lists them.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

FILE: Final = Path(__file__).parents[1] / "durations.json"
KEPT_SECONDS: Final = 0.2
SLOW_SECONDS: Final = 1.0
NIGHTLY_SECONDS: Final = 2.0
SHORT_FOLDERS: Final = (
    "tests/unit/",
    "tests/machines/",
    "tests/doors/",
    "tests/contracts/github_client/",
    "tests/contracts/models/",
    "tests/contracts/store/",
)
ALWAYS: Final = "tests/safety/"
"""Attacks on the sandbox are never left out."""


class Durations:
    """A plugin of pytest."""

    def __init__(self, file: Path, *, store: bool, tenth: int | None) -> None:
        self._file = file
        self._store = store
        self._tenth = tenth
        text = file.read_text(encoding="utf-8") if file.exists() else "{}"
        self._known: dict[str, dict[str, float]] = json.loads(text)
        self._measured: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Set the marks before `-m` chooses by them, and put files that take long first."""
        nightly: dict[pytest.Item, float] = {}
        for item in items:
            spine, seconds = item.get_closest_marker("spine") and _is_first(item), self._find(item)
            if spine or (seconds < SLOW_SECONDS and item.nodeid.startswith(SHORT_FOLDERS)):
                item.add_marker("short")
            elif seconds >= NIGHTLY_SECONDS and not item.nodeid.startswith(ALWAYS):
                item.add_marker("nightly")
                nightly[item] = seconds
        if self._tenth is not None:
            gone = nightly.keys() - _deal_out(nightly)[self._tenth]
            config.hook.pytest_deselected(items=[*gone])
            items[:] = [item for item in items if item not in gone]
        totals: dict[Path, float] = defaultdict(float)
        for item in items:
            totals[item.path] += self._find(item)
        items.sort(key=lambda item: -totals[item.path])

    def _find(self, item: pytest.Item) -> float:
        path, _, name = item.nodeid.partition("::")
        return self._known.get(path, {}).get(name, 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, name = report.nodeid.partition("::")
        self._measured[path][name] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace what was measured, and drop the files that are gone."""
        if not self._store:
            return
        root = self._file.parent.parent
        for path, tests in self._measured.items():
            self._known[path] = {**self._known.get(path, {}), **tests}
        kept = {
            path: {name: round(s, 1) for name, s in tests.items() if s >= KEPT_SECONDS}
            for path, tests in self._known.items()
            if (root / path).exists()
        }
        text = json.dumps({p: t for p, t in kept.items() if t}, indent=1, sort_keys=True)
        self._file.write_text(text + "\n", encoding="utf-8")


def _deal_out(nightly: Mapping[pytest.Item, float]) -> list[set[pytest.Item]]:
    """Ten parts that take about as long as each other."""
    parts: list[set[pytest.Item]] = [set() for _ in range(10)]
    taken = [0.0] * 10
    for item in sorted(nightly, key=lambda item: (-nightly[item], item.nodeid)):
        least = taken.index(min(taken))
        parts[least].add(item)
        taken[least] += nightly[item]
    return parts


def _is_first(item: pytest.Item) -> bool:
    """Whether these are the first of a test's parameters."""
    callspec = getattr(item, "callspec", None)
    return callspec is None or not any(callspec.indices.values())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help=f"write {FILE.name}")
    parser.addoption(
        "--tenth", type=int, choices=range(10), help="run a tenth of the nightly tests: which"
    )


def pytest_configure(config: pytest.Config) -> None:
    store = bool(config.getoption("store_durations")) and not hasattr(config, "workerinput")
    plugin = Durations(FILE, store=store, tenth=config.getoption("tenth"))
    config.pluginmanager.register(plugin)
