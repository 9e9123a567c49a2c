"""`capuchin demo` as a person starts it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from capuchin_demo.environment import REVIEW, load_recording
from capuchin_demo.package import FILE

NO_NETWORK = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}


def environment(data: Path, **env: str) -> dict[str, str]:
    usual = {k: v for k, v in os.environ.items() if not k.startswith(("CAPUCHIN_", "ANTHROPIC_"))}  # noqa: TID251 - the demo's own environment
    return {**usual, "CAPUCHIN_DATA_DIR": str(data), **env}


def demo(data: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bot", "demo"],
        env=environment(data, **env),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@contextmanager
def demo_that_stays(data: Path, log: Path) -> Generator[subprocess.Popen[str]]:
    """`capuchin demo --keep`, which writes standard error to `log`."""
    with log.open("w") as file, subprocess.Popen(
        [sys.executable, "-m", "bot", "demo", "--keep"],
        env=environment(data),
        stdout=subprocess.PIPE,
        stderr=file,
        text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], pattern: str) -> tuple[str, re.Match[str]]:
    """What it prints up to the line that matches."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if found := re.search(pattern, line):
            return text, found
    raise AssertionError(text)


def visit(url: str, **values: str) -> str:
    """The page; with `values`, after its form with them was sent."""
    with httpx.Client(follow_redirects=True, timeout=120) as http:
        text = http.get(url).text
        if values:
            token = re.search(r'name="token" value="([^"]+)"', text)
            assert token is not None
            text = http.post(url, data={"token": token[1], **values}).text
        return text


def wait_for(url: str, words: str, seconds: float = 1200) -> None:
    deadline = time.monotonic() + seconds
    while words not in (text := visit(url)):
        assert time.monotonic() < deadline, text
        time.sleep(1)


def test_a_real_bug_becomes_a_pull_request_whose_visitor_reviews_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with demo_that_stays(tmp_path, log) as process:
        out, found = read_until(process, r"^Pull request: (http://127\.0\.0\.1:\d+/.+)/pull/2$")
        rows = {line.split("  ")[1]: line.split()[-1] for line in out.splitlines()[3:8] if line}
        assert {"edit A (chosen)", "edit B", "edit C"} <= rows.keys(), out
        assert rows["edit A (chosen)"] == rows["edit B"] == "3"
        assert rows["edit C"] == "1", "the wrong edit is found out by the others' tests"
        assert "the selection machine" in out
        assert re.search(r"\b911\b.+\b911\b", out), "the suite, without the edit and with it"
        assert re.search(r"exit 1\b.+exit 0\b", out), "the reproduction test, likewise"
        assert re.search(r"Wall time: \d+\.\d s\.", out)

        issue, pull = f"{found[1]}/issues/1", f"{found[1]}/pull/2"
        assert re.search(r'I opened <a href="/[^"]+/pull/2"[^>]*>#2</a>', visit(issue))
        visit(issue, action="comment", text="/capuchin help")
        visit(pull, action="review", state="CHANGES_REQUESTED", text=REVIEW)
        wait_for(issue, "/capuchin stats")
        wait_for(pull, "I added a comment above the line")
        assert "is always the schema." in visit(f"{pull}.diff")
        runs = re.search(r"All runs: +(\S+) \(any name, password (\w+)\)", log.read_text())
        assert runs is not None
        assert httpx.get(runs[1], auth=("me", runs[2])).status_code == 200

        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    said = log.read_text()
    assert said.startswith("This demo fixes a real bug of a real package, here on this machine")
    assert "Model: Recorded answers" in said
    assert f"Issue:        {issue}\n" in said
    assert "Python 3.11" in said
    assert "no operation" not in said, "the bot asks nothing that the demo's GitHub lacks"


def test_a_signal_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    own = tmp_path / "scratch"
    own.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", "demo"],
        env=environment(tmp_path, TMPDIR=str(own)),
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "adds the label" in line)
        said += process.stderr.readline()  # a step of the run: which one depends on the machine
        (folder,) = own.glob("capuchin-demo-*")
        assert process.poll() is None, said
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(120) == 128 + signal.SIGTERM
    assert not folder.exists()
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(folder) not in listed.stdout


def test_the_recording_is_what_the_demo_promises() -> None:
    answers = load_recording().answers
    assert load_recording().note
    assert "<script>" not in next(a.reply for a in answers if a.call == "testing/1")
    assert len({a.call for a in answers if a.call.startswith("editing/")}) == 3


def test_without_network_it_says_where_to_put_the_package(tmp_path: Path) -> None:
    done = demo(tmp_path, **NO_NETWORK)
    assert done.returncode == 1
    assert str(tmp_path / "cache" / FILE) in done.stderr
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
        ({"DOCKER_HOST": "unix:///nowhere.sock"}, "Docker could not be reached"),
        ({"PATH": "/nowhere"}, "redis-server is not installed"),
        ({"CAPUCHIN_WORKER_RUNS": "many"}, "CAPUCHIN_WORKER_RUNS"),
    ],
)
def test_what_is_missing_is_reported_in_a_sentence(
    tmp_path: Path, env: dict[str, str], said: str
) -> None:
    done = demo(tmp_path, **env)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
