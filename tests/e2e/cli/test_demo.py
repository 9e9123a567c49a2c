"""`capuchin demo` as a person starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bot.demo.environment import load_recording
from bot.demo.package import FILE

NO_NETWORK = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}


def demo(data: Path, **env: str) -> subprocess.CompletedProcess[str]:
    usual = {k: v for k, v in os.environ.items() if not k.startswith(("CAPUCHIN_", "ANTHROPIC_"))}  # noqa: TID251 - the demo's own environment
    return subprocess.run(
        [sys.executable, "-m", "bot", "demo"],
        env={**usual, "CAPUCHIN_DATA_DIR": str(data), **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_real_bug_becomes_a_pull_request_and_it_says_that_answers_are_recorded(
    tmp_path: Path,
) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Model: recorded answers." in done.stderr
    assert re.search(r"\nPull request: http://127\.0\.0\.1:\d+/.+/pull/2\n", done.stdout)
    rows = {line.split("  ")[1]: line.split()[-1] for line in done.stdout.splitlines()[3:8] if line}
    assert rows["candidate 0"] == "1", "the wrong edit is found out by the others' tests"
    assert rows["candidate 1"] == rows["candidate 2 (chosen)"] == "3"
    assert "the selection machine" in done.stdout
    assert "911 pass without the edit, 911 with it; 0 broken by it." in done.stdout
    assert "exit 1 without the edit, exit 0 with it." in done.stdout
    assert "for recorded answers; nothing was paid" in done.stdout
    assert re.search(r"Wall time: \d+\.\d s\.", done.stdout)


def test_the_recording_is_what_the_demo_promises() -> None:
    answers = load_recording().answers
    assert "not the output of a live model" in load_recording().note
    assert "<script>" not in next(a.reply for a in answers if a.call == "testing/1")
    assert len({a.call for a in answers if a.call.startswith("editing/")}) == 3


def test_without_network_it_says_where_to_put_the_package(tmp_path: Path) -> None:
    done = demo(tmp_path, **NO_NETWORK)
    assert done.returncode == 1
    assert f"put the file at {tmp_path / 'cache' / FILE}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_that_was_tampered_with_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FILE).write_bytes(b"something else")
    done = demo(tmp_path, **NO_NETWORK)
    assert done.returncode == 1
    assert "Could not download" in done.stderr


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"CAPUCHIN_DOCKER_URL": "unix:///nowhere.sock"}, "Docker could not be reached"),
        ({"PATH": "/nowhere"}, "redis-server is not installed"),
        ({"CAPUCHIN_PORT": "many"}, "CAPUCHIN_PORT"),
    ],
)
def test_what_is_missing_is_said_in_a_sentence(
    tmp_path: Path, env: dict[str, str], said: str
) -> None:
    done = demo(tmp_path, **env)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
