"""Local only: with every model at loopback, a run needs no network but that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli import local_run

ROOT = Path(__file__).parents[3]
ALONE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
UP = 'ip link set lo up && exec "$0" "$@"'


def test_a_whole_run_is_made_without_a_route_out(tmp_path: Path) -> None:
    """Docker is reached by its local socket, and runs the code without a network as always."""
    if not Path("/var/run/docker.sock").exists():
        pytest.skip("Docker has no local socket here.")
    try:
        tried = subprocess.run([*ALONE, "sh", "-c", UP, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("There is no `unshare` here to make a network namespace with.")
    if tried.returncode:
        pytest.skip(f"No network namespace can be made here: {tried.stderr.decode()[-200:]}")
    ended = subprocess.run(
        [*ALONE, "sh", "-c", UP, sys.executable, "-m", "tests.e2e.cli.local_only", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == local_run.FIXED, ended.stderr.decode()
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["code_sent_to"] == []
    stages = {account["stage"] for account in report["accounts"]}
    assert {"relevance", "understanding", "localisation", "prm", "editing"} <= stages
    assert report["context"]["search"]["notes"] == []
