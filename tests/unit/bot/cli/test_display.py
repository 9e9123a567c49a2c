"""What a command shows while it works: on a terminal, in a pipe, for a program."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from bot.cli.display import Pace, estimate_run, is_worth_a_line, print_progress
from bot.cli.local_run import open_display
from bot.data.progress import Progress, describe
from bot.data.run import now
from pipeline.data.progress import Count, FilesRead
from sandbox.frozen import replace
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
RUN: str = TEXTS["RUN"]


def run_on_terminal(**env: str) -> str:
    """What `RUN` writes to a terminal of 100 columns."""
    leader, follower = pty.openpty()
    usual = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}  # noqa: TID251 - of the program under test
    written = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(leader, 65536)
            except OSError:  # the other side is closed
                return
            written.extend(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    ended = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**usual, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **env},
        stdout=subprocess.PIPE,
        stderr=follower,
        check=False,
        timeout=120,
    )
    os.close(follower)
    reader.join(120)
    assert not reader.is_alive()
    os.close(leader)
    assert ended.returncode == 0, written.decode()
    assert ended.stdout == b"the result\n", "what may be a file gets the result alone"
    return written.decode()


def test_a_terminal_shows_stages_counts_cost_and_time_in_place() -> None:
    text = run_on_terminal()
    assert "\x1b[?25l" in text, "the cursor is hidden"
    assert "\x1b[?25h" in text, "and shown again"
    assert "\x1b[1A" in text, "lines are drawn anew"
    assert "\\x1b[2Jwriting" in text, "what a repository wrote cannot control the terminal"
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert "700 of 1,400" in plain
    assert re.search(r"\d:\d\d so far · \$0\.25 of at most \$10\.00", plain)
    last = plain[plain.rindex("✔ Install the repository") :]
    assert re.search(r"✔ Check the issue and find the code\s+(?!0:00)\d:\d\d", last)
    assert re.search(r"✔ Write edits and scripts\s+2 edits", last)
    assert "· Run the tests and choose" in last
    assert last.rstrip().endswith("... 20 more lines\r\nFix: it adds.")
    removed, added = (re.findall(rf"(\x1b\[[\d;]+m){line}", text)[0] for line in ("-   ", "[+]   "))
    assert removed != added
    assert "38;" not in removed + added, "the terminal's own colors can be read on its background"
    assert plain.startswith("Working on the last commit.")


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_that_cannot_or_shall_not_redraw_gets_lines(env: dict[str, str]) -> None:
    assert run_on_terminal(**env).splitlines() == [
        "Working on the last commit.",
        "The scout has read 700 of 1,400 files.",
        "The scout has read 1,400 of 1,400 files.",
        "\\x1b[2Jwriting",
        "Fix: it adds.",
    ]


def test_a_program_reads_an_event_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display(json=True) as display:
        print_progress("Working on\nit.")
        progress = Progress(doing="Preparing.", stages={"environment": now()})
        display.show(progress, 10.0)
        for done in (1, 2, 3):
            doing, counted = describe(FilesRead(done, 40))
            stages = {**progress.stages, "context": now()}
            changes = {"doing": doing, "counted": counted, "stages": stages}
            progress = replace(progress, **changes, dollars=done / 100)
            display.show(progress, 10.0)
        display.end(3, {"outcome": "no fix", "dollars": 0.03, "out": "/out"})
        print_progress("No fix.")
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in err.splitlines()]
    assert out == ""
    assert [each["event"] for each in events] == [
        "message", "stage", "progress", "stage", "progress", "message", "end",
    ]  # fmt: skip
    assert events[0]["text"] == "Working on\nit."
    latest = events[4]
    assert (latest["stage"], latest["done"], latest["total"]) == ("context", 3, 40)
    assert (latest["dollars"], latest["budget"]) == (0.03, 10.0)
    assert {"exit_code": 3, "outcome": "no fix", "out": "/out"}.items() <= events[-1].items()


def test_what_is_interrupted_says_so_to_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), open_display(json=True):
        raise KeyboardInterrupt
    end = json.loads(capsys.readouterr().err)
    assert (end["event"], end["exit_code"], end["outcome"]) == ("end", None, "interrupted")


def test_a_log_gets_each_tenth_of_the_files_and_all_counts_of_tests() -> None:
    counts = [Count(n, 300, "files") for n in range(0, 301, 3)]
    assert sum(map(is_worth_a_line, counts)) == 11
    assert is_worth_a_line(Count(455, 1911, "tests"))
    assert is_worth_a_line(None)


def test_the_time_left_follows_the_pace_once_there_is_one() -> None:
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    pace.note(Count(0, 100, "files"))
    assert pace.seconds_left is None
    clock[0] = 10.0
    pace.note(Count(20, 100, "files"))
    assert pace.seconds_left == 40
    clock[0] = 12.0
    assert pace.seconds_left == 38
    pace.note(Count(0, 911, "tests"))
    assert pace.seconds_left is None


def test_the_usual_length_of_a_run_tells_how_long_this_one_takes() -> None:
    began = now() - timedelta(seconds=60)
    usual = Progress(expected=(330, 390), stages={"environment": began})
    low, high = estimate_run(usual) or (0, 0)
    assert (round(low), round(high)) == (270, 330)
    late = {"environment": now() - timedelta(seconds=400)}
    assert estimate_run(replace(usual, stages=late)) is None
