import json
from pathlib import Path

import pytest

from tests.benchmarks.table import Row


async def _measure() -> list[Row]:
    return [Row("speed", 2, "s", "walking", 4)]


async def _fail() -> list[Row]:
    raise OSError("the volume is in use")


def test_a_benchmark_that_fails_costs_no_result_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Only here: it imports what every benchmark needs.
    from tests.benchmarks import __main__ as benchmarks

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        benchmarks, "BENCHMARKS", {"one": _measure, "two": _fail, "three": _measure}
    )
    monkeypatch.setattr("sys.argv", ["bench"])
    assert benchmarks.main() == 1
    shown = capsys.readouterr()
    assert shown.out.count("speed  2.00") == 2
    assert "the volume is in use" in shown.err
    assert shown.err.endswith("bench: two failed; see above.\n")
    assert len(json.loads(Path("build/bench.json").read_text())) == 2
