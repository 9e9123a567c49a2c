"""Which comments are commands, and which only look like one."""

import pytest

from bot.commands import verbs
from bot.data.request import Command
from bot.webhooks.command_text import VERBS, is_talk, nearest_verb, parse_command
from tests.support.texts import texts_of

ROWS = texts_of(__file__)


@pytest.mark.parametrize(("text", "verb", "words"), ROWS["a_command_that_begins_a_line_is_read"])
def test_a_command_that_begins_a_line_is_read(text: str, verb: str, words: list[str]) -> None:
    found = parse_command(text, "capuchin")
    assert found is not None
    assert (found.verb, found.words, found.begins_line) == (verb, tuple(words), True)


@pytest.mark.parametrize(
    ("text", "verb", "talks"), ROWS["our_name_in_mid_line_is_no_command_but_noticed"]
)
def test_our_name_in_mid_line_is_no_command_but_noticed(text: str, verb: str, talks: bool) -> None:
    found = parse_command(text, "capuchin")
    assert found is not None
    assert (found.verb, found.begins_line, is_talk(found)) == (verb, False, talks)


def test_the_others_of_several_commands_are_named() -> None:
    found = parse_command("/capuchin retry\n> /capuchin plan\n/capuchin stop", "capuchin")
    assert found is not None
    assert (found.verb, found.others) == ("stop", ("retry",))


def test_the_verbs_that_are_known_are_those_that_are_carried_out() -> None:
    assert set(VERBS) == set(verbs.VERBS)


@pytest.mark.parametrize("text", ROWS["text_that_is_elsewhere_quoted_or_code_is_no_command"])
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
    for text in ("\n" * 60_000, "`a" * 30_000, "/capuchi " * 7_000, "<!-" * 20_000, "``" * 30_000):
        assert parse_command(f"{text}x", "capuchin") is None


def test_the_nearest_verb() -> None:
    verbs = ("fix", "stats", "status", "stop")
    assert nearest_verb("stauts", verbs) == "status"
    assert nearest_verb("stat", verbs) == "stats"
    assert nearest_verb("fixx", verbs) == "fix"
    assert nearest_verb("thanks", verbs) is None
