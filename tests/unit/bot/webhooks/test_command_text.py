"""Which comments are commands, and which only look like one."""

import pytest

from bot.commands import verbs
from bot.data.request import Command
from bot.webhooks.command_text import VERBS, is_talk, nearest_verb, parse_command


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
        ("Thanks.\n/capuchin fix", "fix", ()),
        ("Not needed any more, thanks.\r\n\r\n/capuchin stop\r\nBye.", "stop", ()),
        ("> total() subtracts\n\n/capuchin stop", "stop", ()),
        ("> total() subtracts\n/capuchin stop", "stop", ()),
        ("**/capuchin stop**", "stop", ()),
        ("Thanks! @capuchin stop", "stop", ()),
        ("```\n/capuchin fix\n```\n/capuchin stop", "stop", ()),
        ("````\n```\n/capuchin fix\n````\n/capuchin stop", "stop", ()),
        ("```\n<!--\n```\n/capuchin stop", "stop", ()),
        ("<!-- /capuchin fix\n/capuchin fix -->\n/capuchin stop", "stop", ()),
        ("`a` /capuchin is `b`\n/capuchin stop", "stop", ()),
        ("/capuchin use `B`", "use", ("`B`",)),
        ("/capuchin retry\n/capuchin stop", "stop", ()),
        ("@capuchin thanks!\n/capuchin use B", "use", ("B",)),
        ("I like /capuchin fix\n/capuchin plan", "plan", ()),
    ],
)
def test_a_command_that_begins_a_line_is_read(text: str, verb: str, words: tuple[str, ...]) -> None:
    found = parse_command(text, "capuchin")
    assert found is not None
    assert (found.verb, found.words, found.begins_line) == (verb, words, True)


@pytest.mark.parametrize(
    ("text", "verb", "talks"),
    [
        ("Please /capuchin fix", "fix", False),
        ("- /capuchin stop", "stop", False),
        ("Could you, @capuchin, stop?", "stop", False),
        ("See the manual. /capuchin fix starts it.", "fix", False),
        ("We use @capuchin for that.", "for", True),
        ("Thanks @capuchin!", "", True),
        ("It's `total` that I meant, @capuchin", "", True),
        ("An odd ` here, @capuchin", "", True),
        ("(@capuchin) can you check?", "can", True),
        ('"@capuchin can you check?"', "can", True),
        ("cc:@capuchin", "", True),
        ("I think @capuchin should retry this later", "should", True),
    ],
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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "> /capuchin fix",
        "    /capuchin fix",
        "\t/capuchin fix",
        "```\n/capuchin fix\n```",
        "```\n/capuchin fix",
        "~~~ sh\n/capuchin fix\n```\n~~~",
        "<pre>\n/capuchin fix\n</pre>",
        "<details><code>/capuchin fix</code></details>",
        "Write ``/capuchin fix``, or `@capuchin fix`.",
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
    for text in ("\n" * 60_000, "`a" * 30_000, "/capuchi " * 7_000, "<!-" * 20_000, "``" * 30_000):
        assert parse_command(f"{text}x", "capuchin") is None


def test_the_nearest_verb() -> None:
    verbs = ("fix", "stats", "status", "stop")
    assert nearest_verb("stauts", verbs) == "status"
    assert nearest_verb("stat", verbs) == "stats"
    assert nearest_verb("fixx", verbs) == "fix"
    assert nearest_verb("thanks", verbs) is None
