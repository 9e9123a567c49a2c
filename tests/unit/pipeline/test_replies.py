import json

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pipeline.models.providers.answers import Answer, read_chat
from pipeline.replies import Malformed, Tag, only_tag, only_tag_or_approval, split_thoughts, tags
from tests.support.hypothesis_settings import QUICK

GOOD = {
    "plain": "<script>\nx = 1\n</script>",
    "prose around": "I think.\n\n<script>\nx = 1\n</script>\nDone.",
    "a fence inside": "<script>\n```python\nx = 1\n```\n</script>",
    "a fence around": "```xml\n<script>\nx = 1\n</script>\n```",
    "said twice": "<script>\nx = 1\n</script>\n\n<script>\nx = 1\n</script>",
    "a channel of gpt-oss": "<|channel|>final<|message|><script>\nx = 1\n</script>",
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


@pytest.mark.parametrize("reply", [f"{BLOCK}\n{BLOCK.replace('1', '2')}\n<approve/>", "<approve/>"])
def test_an_approval_does_not_make_up_for_a_block(reply: str) -> None:
    tag, ahead = only_tag_or_approval(reply, "script")
    assert isinstance(tag, Malformed)
    assert not ahead


def test_thoughts_may_quote_their_own_end() -> None:
    """ggml-org/llama.cpp#27661."""
    reply = "<think>It ends with `</think>`, so I split there.</think>\n<approve/>"
    assert split_thoughts(reply) == ("It ends with `</think>`, so I split there.", "<approve/>")


FAMILIES = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("", "</think>"),  # begun by the template
    ("", ""),
]
PROSE = st.sampled_from(
    [
        "",
        "I test it so.",
        "The <script> block:",
        "As `</think>` says.",
        "```xml",
        "It is `<think>`.",
    ]
)
LINES = st.lists(
    st.sampled_from(
        [
            "x = 1",
            "    if x < 2:",
            "print('</script>')",
            "</script>",
            "</think>",
            "<think>so</think>",
            "<script>\nalert(1)\n</script>",
            "[THINK]x[/THINK]",
            "cat <<E",
            "<approve/>",
            "",
        ]
    ),
    max_size=6,
)


@QUICK
@given(st.sampled_from(FAMILIES), PROSE, LINES, PROSE, st.booleans(), st.booleans())
@example(("", ""), "", ["</think>"], "", False, False)
@example(("", "</think>"), "", ["</script>", "</think>"], "", False, False)
def test_a_block_is_read_outside_of_thoughts_with_all_that_it_quotes(
    family: tuple[str, str], before: str, lines: list[str], after: str, drafts: bool, late: bool
) -> None:
    """Thoughts of every family, with and without a draft in them, before the prose or after it;
    closing tags of any kind in the block."""
    begin, end = family
    assume(begin or not drafts or "</script>" not in lines)  # nobody could tell
    assume(not (late and "```" in before))  # thoughts in a fence are quoted
    body = "\n".join(["x = 0", *lines, "x = 2"])
    block = f"<script>\n{body}\n</script>"
    draft = "\n<script>\nno\n</script>\n" if drafts else "\nHm.\n"
    thoughts = f"{begin}{draft}{end}" if end else ""
    first = [before, thoughts] if late and begin else [thoughts, before]
    reply = "\n\n".join([*first, block, after])
    assert only_tag(reply, "script", "edit") == Tag("script", body)
    if end:
        assert split_thoughts(reply)[0] == draft.strip()


@QUICK
@given(LINES, st.lists(st.integers(1, 9), max_size=8), st.booleans(), st.booleans())
def test_a_stream_in_pieces_is_the_message_whatever_its_last_chunk_repeats(
    lines: list[str], cuts: list[int], whole: bool, again: bool
) -> None:
    """Cut anywhere; the last chunk may hold all of it, as a delta or as a message."""
    text = "\n".join(["I see that it subtracts where it should add, so:", *lines])
    pieces: list[str] = []
    left = text
    for cut in cuts:
        pieces.append(left[:cut])
        left = left[cut:]
    chunks: list[dict[str, object]] = [{"delta": {"content": one}} for one in (*pieces, left)]
    last: dict[str, object] = {"delta": {}, "finish_reason": "stop"}
    if whole:
        last["message"] = {"content": text}
    elif again:
        last["delta"] = {"content": text}
    answer = Answer()
    for chunk in (*chunks, last):
        read_chat(answer, json.loads(json.dumps({"choices": [chunk]})))
    assert "".join(answer.text) == text
    assert answer.stop_reason == "stop"
