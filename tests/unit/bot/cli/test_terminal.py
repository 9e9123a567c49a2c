"""Text by a repository or a model can neither control a terminal nor forge a line of a log."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bot.cli.local_run import print_progress
from bot.cli.terminal import printable

EVIL = "\x1b[2Jred\x07\r\u202e\u2028end"


def test_control_and_direction_characters_are_spelt_out() -> None:
    assert printable(EVIL) == "\\x1b[2Jred\\x07\\r\\u202e\\u2028end"
    assert printable("é ☃ 修\ttab\nline") == "é ☃ 修\ttab\nline"
    assert printable("one\nINFO two", one_line=True) == "one\\nINFO two"


def test_progress_holds_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    print_progress(EVIL)
    assert capsys.readouterr().err == f"{printable(EVIL)}\n"


def test_a_record_of_the_log_is_one_line_but_for_its_traceback() -> None:
    code = """
import logging
from bot.cli.terminal import start_logging
start_logging()
logging.warning("repository %s", "a\\nERROR forged \\x1b[31m")
try:
    raise ValueError("b\\x1b[31m")
except ValueError:
    logging.exception("it broke")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second, *traceback = done.stderr.splitlines()
    assert first.endswith("WARNING repository a\\nERROR forged \\x1b[31m")
    assert second.endswith("ERROR it broke")
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-1] == "ValueError: b\\x1b[31m"
