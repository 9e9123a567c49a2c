"""The alert rules and the dashboard that are shipped: valid, and about metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.sources import ROOT
from tests.support.texts import texts_of

RULES: Final = ROOT / "deploy/monitoring/alerts.yml"
DASHBOARD: Final = ROOT / "deploy/monitoring/grafana.json"
SUFFIXES: Final = ("_bucket", "_sum", "_count")
TEXTS = texts_of(__file__)
CASES: str = TEXTS["CASES"]


def named_metrics(text: str) -> set[str]:
    return set(re.findall(r"\bcapuchin_[a-z_]+\b", text))


def list_known() -> set[str]:
    expected = [ROOT / "tests/doors/expected" / name for name in ("metrics", "worker_metrics")]
    pages = [json.loads(file.with_suffix(".json").read_text(encoding="utf-8")) for file in expected]
    metrics: dict[str, dict[str, Any]] = {**pages[0], **pages[1]}
    histograms = [name for name, facts in metrics.items() if facts["type"] == "histogram"]
    return {*metrics, *(name + suffix for name in histograms for suffix in SUFFIXES)}


@pytest.mark.parametrize("path", [RULES, DASHBOARD, ROOT / "docs/operating.md"])
def test_every_metric_that_is_named_exists(path: Path) -> None:
    named = named_metrics(path.read_text(encoding="utf-8"))
    assert named
    assert named <= list_known()


def test_the_dashboard_shows_every_metric() -> None:
    shown = named_metrics(DASHBOARD.read_text(encoding="utf-8"))
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    apart = {"capuchin_redis_up", "capuchin_run_seconds_total"}
    known = {name for name in list_known() if not name.endswith(SUFFIXES)}
    assert known - families == apart


def test_the_alert_rules_fire_when_they_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.format(rules=RULES), encoding="utf-8")
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(cases)]):
        done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
