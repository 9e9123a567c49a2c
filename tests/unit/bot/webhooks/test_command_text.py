"""Which comments are commands, and which only look like one."""

from __future__ import annotations

import pytest

from bot.data.request import Command
from bot.webhooks.command_text import nearest_verb, parse_command


@pytest.mark.parametrize(
    ("text", "verb", "words"),
    [
        ("/capuchin fix", "fix", ()),
        ("/capuchin cancel", "stop", ()),
        ("@capuchin approve", "fix", ()),
        ("/capuchin dry-run", "plan", ()),
        ("@capuchin fix", "fix", ()),
        ("@capuchin[bot] fix", "fix", ()),
        ("/Capuchin FIX", "fix", ()),
        ("  /capuchin fix", "fix", ()),
        ("\r\n\n/capuchin fix\r\nThe cause is in till.py.", "fix", ()),
        ("/capuchin: fix!", "fix", ()),
        ("@capuchin, status?", "status", ()),
        ("/capuchin\tstop", "stop", ()),
        ("/capuchin", "", ()),
        ("/capuchin use 2", "use", ("2",)),
        ("/capuchin fix --force", "fix", ("--force",)),
    ],
)
def test_a_command_at_the_start_is_read(text: str, verb: str, words: tuple[str, ...]) -> None:
    found = parse_command(text, "capuchin")
    assert found is not None
    assert (found.verb, found.words) == (verb, words)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Please /capuchin fix",
        "Thanks.\n/capuchin fix",
        "> /capuchin fix",
        "    /capuchin fix",
        "\t/capuchin fix",
        "```\n/capuchin fix\n```",
        "`/capuchin fix`",
        "/capuchins fix",
        "/capuchin-dev fix",
        "@capuchin-dev fix",
        "/capuchin/fix",
        "me@capuchin fix",
        "https://example.org/capuchin fix",
        "<!-- -->/capuchin fix",
        "\u200b/capuchin fix",
        "/capuchin\u00a0fix",
    ],
)
def test_text_that_is_elsewhere_quoted_or_code_is_no_command(text: str) -> None:
    assert parse_command(text, "capuchin") is None


def test_the_name_is_the_operators() -> None:
    assert parse_command("/fix.me go", "fix.me") == Command(verb="go")
    assert parse_command("/fixame go", "fix.me") is None


def test_numbers_and_the_word_for_all_the_same_are_found() -> None:
    found = parse_command("/capuchin judge #12, 13 x4 anyway", "capuchin")
    assert found is not None
    assert (found.numbers, found.anyway) == ((12, 13), True)


def test_a_very_long_line_is_read_in_no_time_and_cut() -> None:
    found = parse_command(" " * 3 + "/capuchin " + "x" * 60_000, "capuchin")
    assert found is not None
    assert len(found.verb) == 40
    assert parse_command("\n" * 60_000 + "x", "capuchin") is None


def test_the_nearest_verb() -> None:
    verbs = ("fix", "stats", "status", "stop")
    assert nearest_verb("stauts", verbs) == "status"
    assert nearest_verb("stat", verbs) == "stats"
    assert nearest_verb("fixx", verbs) == "fix"
    assert nearest_verb("thanks", verbs) is None
