"""What a repository or a model wrote cannot control a terminal."""

from __future__ import annotations

import pytest

from bot.cli.display import print_progress
from bot.safe_text import printable

EVIL = "\x1b[2Jred\x07\r\u202e\u2028end"


def test_control_and_direction_characters_are_spelt_out() -> None:
    assert printable(EVIL) == "\\x1b[2Jred\\x07\\r\\u202e\\u2028end"
    assert printable("é ☃ 修\ttab\nline") == "é ☃ 修\ttab\nline"
    assert printable("one\nINFO two", one_line=True) == "one\\nINFO two"


def test_progress_holds_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    print_progress(EVIL)
    assert capsys.readouterr().err == f"{printable(EVIL)}\n"
