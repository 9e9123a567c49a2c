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
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

FILE: Final = Path(__file__).parents[1] / "durations.json"
KEPT_SECONDS: Final = 0.2
SLOW_SECONDS: Final = 1.0
NIGHTLY_SECONDS: Final = 2.0
SEED: Final = 1684
"""Of the checksum that gives each nightly test its tenth for good: with it the ten take about as
long as each other."""
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
        totals: dict[Path, float] = defaultdict(float)
        left_out: list[pytest.Item] = []
        for item in items:
            path, _, name = item.nodeid.partition("::")
            seconds = self._known.get(path, {}).get(name, 0.0)
            spine = item.get_closest_marker("spine") and _is_first(item)
            if spine or (seconds < SLOW_SECONDS and path.startswith(SHORT_FOLDERS)):
                item.add_marker("short")
            elif seconds >= NIGHTLY_SECONDS and not path.startswith(ALWAYS):
                item.add_marker("nightly")
                part = crc32(item.nodeid.encode(), SEED) % 10
                if self._tenth is not None and part != self._tenth:
                    left_out.append(item)
                    continue
            totals[item.path] += seconds
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            gone = set(left_out)
            items[:] = [item for item in items if item not in gone]
        items.sort(key=lambda item: -totals[item.path])

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
