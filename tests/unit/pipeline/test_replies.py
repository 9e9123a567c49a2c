from __future__ import annotations

import pytest

from pipeline.replies import Malformed, Tag, only_tag, only_tag_or_approval, tags

GOOD = {
    "plain": "<script>\nx = 1\n</script>",
    "prose around": "I think.\n\n<script>\nx = 1\n</script>\nDone.",
    "a fence inside": "<script>\n```python\nx = 1\n```\n</script>",
    "a fence around": "```xml\n<script>\nx = 1\n</script>\n```",
    "CRLF": "<script>\r\nx = 1\r\n</script>\r\n",
    "on one line": "<script>x = 1</script>",
    "bold": "**<script>**\nx = 1\n</script>".replace("**\nx", "\nx"),
    "the tag named in prose": "Here is the <script> block:\n<script>\nx = 1\n</script>",
    "thinking before": "<think>\n<script>\nno\n</script>\n</think>\n<script>\nx = 1\n</script>",
    "indented": "  <script>\n x = 1\n  </script>".replace(" x", "x"),
}


@pytest.mark.parametrize("form", GOOD)
def test_a_block_is_read_in_every_usual_dress(form: str) -> None:
    assert only_tag(GOOD[form], "script", "approve") == Tag("script", "x = 1")


@pytest.mark.parametrize("reply", ["<approve/>", "<approve />", "Yes.\n<approve></approve>\n"])
def test_an_approval_needs_no_body(reply: str) -> None:
    assert only_tag(reply, "script", "approve") == Tag("approve", "")


def test_a_block_may_mention_its_own_closing_tag_inside_a_line() -> None:
    reply = "<script>\nprint('</script>')\n</script>"
    assert only_tag(reply, "script") == Tag("script", "print('</script>')")


def test_a_tag_inside_a_block_is_its_content() -> None:
    reply = "<script>\n<approve/>\n</script>"
    assert only_tag(reply, "script", "approve") == Tag("script", "<approve/>")


def test_a_block_inside_a_line_is_taken_when_no_other_is_there() -> None:
    assert only_tag("I take <choice>2</choice>.", "script", "choice") == Tag("choice", "2")
    assert isinstance(only_tag("I cannot <approve/> it.", "script", "approve"), Malformed)


def test_one_fenced_block_is_taken_where_only_one_kind_can_be_meant() -> None:
    reply = "I test it so.\n\n```python\nx = 1\n```\n"
    script = Tag("script", "x = 1")
    assert only_tag(reply, "script", "no_issue") == script
    assert only_tag_or_approval(f"{reply}\n<approve/>", "script") == (script, True)
    assert only_tag_or_approval(reply, "script") == (script, False)
    assert isinstance(only_tag(reply, "script", "bash"), Malformed)
    assert isinstance(only_tag(reply + reply, "script"), Malformed)
    assert isinstance(only_tag("<script>\n" + reply, "script"), Malformed)


def test_indentation_of_the_first_line_is_kept() -> None:
    assert only_tag("<script>\n    x\n</script>", "script") == Tag("script", "    x")


BAD = {
    "": "no <script> or <approve> block",
    "just words": "no <script> or <approve> block",
    "<other>\nx\n</other>": "no <script> or <approve> block",
    "<script>\nx = 1": "never closes it",
    "<script>\na\n</script>\n<script>\nb\n</script>": "2 blocks (<script>, <script>)",
    "<script>\na\n</script>\n<approve/>": "2 blocks (<script>, <approve>)",
}


@pytest.mark.parametrize("reply", BAD)
def test_a_malformed_reply_is_answered_with_what_to_mend(reply: str) -> None:
    answer = only_tag(reply, "script", "approve")
    assert isinstance(answer, Malformed)
    assert BAD[reply] in answer.hint


def test_all_of_several_blocks_are_read() -> None:
    reply = "<title>A</title>\n<cause>\nB\n</cause>\n"
    assert tags(reply, "title", "cause") == {"title": "A", "cause": "B"}


def test_a_block_inside_another_does_not_count_as_one_of_several() -> None:
    reply = "<cause>\n<title>x</title>\n</cause>\n<title>A</title>"
    assert tags(reply, "title", "cause") == {"cause": "<title>x</title>", "title": "A"}


@pytest.mark.parametrize(
    ("reply", "said"),
    [("<title>A</title>", "no <cause>"), ("<title>A</title>\n<title>B</title>", "2 <title>")],
)
def test_each_of_several_blocks_must_be_there_once(reply: str, said: str) -> None:
    answer = tags(reply, "title", "cause")
    assert isinstance(answer, Malformed)
    assert said in answer.hint


BLOCK = "<script>\nx = 1\n</script>"


@pytest.mark.parametrize(
    ("reply", "tag", "ahead"),
    [
        (f"{BLOCK}\n\n<approve/>", Tag("script", "x = 1"), True),
        (f"<approve/>\n{BLOCK}", Tag("script", "x = 1"), True),
        (BLOCK, Tag("script", "x = 1"), False),
        ("<approve/>", Tag("approve", ""), False),
        ("<script>\n<approve/>\n</script>", Tag("script", "<approve/>"), False),
    ],
)
def test_an_approval_may_ride_on_a_block(reply: str, tag: Tag, ahead: bool) -> None:
    assert only_tag_or_approval(reply, "script", "approve") == (tag, ahead)


@pytest.mark.parametrize("reply", [f"{BLOCK}\n{BLOCK}\n<approve/>", "<approve/>"])
def test_an_approval_does_not_make_up_for_a_block(reply: str) -> None:
    tag, ahead = only_tag_or_approval(reply, "script")
    assert isinstance(tag, Malformed)
    assert not ahead
