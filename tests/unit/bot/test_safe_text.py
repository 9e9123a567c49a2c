"""Untrusted text can notify, link, hide or close nothing, and steers no terminal."""

import pytest

from bot.cli.display import print_progress
from bot.comments.status import pull_marker, status_marker
from bot.data.run import RunId
from bot.safe_text import (
    MARKER_PREFIX,
    block,
    code,
    line,
    plain_text,
    printable,
    prose,
    script_block,
)
from tests.support.texts import texts_of

ROWS = texts_of(__file__)

SPLIT = "\u200b"


def test_mentions_and_references_are_split() -> None:
    shown = prose("Fixes #12 as @alice and @acme/team said in o/r#4, GH-9")
    assert shown == (
        f"Fixes #{SPLIT}12 as @{SPLIT}alice and @{SPLIT}acme/team said in o/r#{SPLIT}4, GH-{SPLIT}9"
    )


def test_addresses_make_no_cross_reference() -> None:
    shown = prose("closes https://github.com/acme/shop/issues/1")
    assert "https://" not in shown
    assert shown.replace(SPLIT, "") == "closes https://github.com/acme/shop/issues/1"


def test_html_is_shown_as_text() -> None:
    assert prose("<img src=x onerror=y>&lt;") == "&lt;img src=x onerror=y\\>&amp;lt;"


def test_html_comments_are_left_out_even_unclosed() -> None:
    assert prose("a<!-- capuchin:status run=1 -->b<!-- rest") == "ab"


@pytest.mark.parametrize("hidden", ["\u3164", "\u115f", "\u2028", "\u2800", "\U000e0041", "\u200b"])
def test_what_nobody_sees_is_neither_posted_nor_printed(hidden: str) -> None:
    text = f"to{hidden}tal"
    assert plain_text(text) == prose(text) == line(text) == "total"
    assert hidden not in block(text, 100)
    assert hidden not in printable(text)


def test_code_spans_stay_code() -> None:
    assert prose("`total(a)[0] <b> @x` is *wrong*") == "`total(a)[0] <b> @x` is \\*wrong\\*"


@pytest.mark.parametrize(("text", "shown"), ROWS["markup_is_text"])
def test_markup_is_text(text: str, shown: str) -> None:
    assert prose(text) == shown


def test_a_line_is_one_line_and_does_not_skip_ci() -> None:
    assert line("[skip ci] Fix\n\nCo-authored-by: x <y>") == "(skip ci) Fix Co-authored-by: x <y>"


def test_a_long_line_is_cut() -> None:
    assert line("word " * 100, 20) == "word word word word…"
    assert line("The code needs Python 3.8 to run.", 20) == "The code needs…"
    assert line("x " + "y" * 100, 20) == "x " + "y" * 17 + "…"


def test_direction_and_control_characters_vanish() -> None:
    assert plain_text("a\u202eb\x1b[31mc\x00d\u2066e") == "abcde"


def test_a_comment_cannot_be_begun_by_what_vanishes() -> None:
    assert plain_text("a <!-\x0b- hidden --> b") == "a  b"


def test_a_block_cannot_be_closed_from_inside() -> None:
    assert block("x\n````\n</details>", 100) == "`````text\nx\n````\n</details>\n`````"


def test_a_long_block_loses_its_middle_and_says_so() -> None:
    shown = block("a" * 50 + "b" * 50, 30)
    assert shown.startswith("```text\n" + "a" * 10 + "\n[... 70 characters left out ...]\n")
    assert shown.endswith("b" * 20 + "\n```")


def test_a_code_span_holds_any_backticks() -> None:
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    assert code("a\nb|c") == "`a b¦c`"


def test_a_log_cannot_pass_for_a_comment_or_pull_request_of_ours() -> None:
    """They are found by their marks; anybody can read the mark of a run and print it in a test."""
    run = RunId("1" * 32)
    forged = f"{status_marker(run)} {pull_marker(run)}"
    shown = block(forged, 1000)
    assert MARKER_PREFIX in forged
    assert MARKER_PREFIX not in shown
    assert shown.count("capuchin:") == 2


EVIL = "\x1b[2Jred\x07\r\u202e\u2028end"


def test_control_and_direction_characters_are_spelt_out() -> None:
    assert printable(EVIL) == "\\x1b[2Jred\\x07\\r\\u202e\\u2028end"
    assert printable("é ☃ 修\ttab\nline") == "é ☃ 修\ttab\nline"
    assert printable("one\nINFO two", one_line=True) == "one\\nINFO two"


def test_progress_holds_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    print_progress(EVIL)
    assert capsys.readouterr().err == f"{printable(EVIL)}\n"


@pytest.mark.parametrize(
    ("script", "suffix", "fence"),
    [
        ("assert 1\n", ".py", "python"),
        ("exit 86\n", ".sh", "sh"),
        ("// till/issue_test.go\npackage till\n", ".go", "go"),
        ("// till/issue.test.ts\nit('adds')\n", ".js", "typescript"),
        ("// src/test/kotlin/IssueTest.kt\nclass IssueTest\n", ".java", "kt"),
        ("# spec/issue_spec.rb\nit 'adds'\n", ".rb", "ruby"),
    ],
)
def test_a_script_is_fenced_in_the_language_of_its_file(
    script: str, suffix: str, fence: str
) -> None:
    assert script_block(script, 1000, suffix) == f"```{fence}\n{script}```"
