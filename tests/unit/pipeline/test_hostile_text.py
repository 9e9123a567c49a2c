"""Text of any shape is read in a time that grows with its length, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pipeline.context.relevance import parse as parse_verdict
from pipeline.context.shortlist import shortlist
from pipeline.context.tokens import estimate
from pipeline.edit_blocks import parse_blocks
from pipeline.edit_match import nearest, replace_once
from pipeline.replies import only_tag
from pipeline.selection.suite import parse as parse_suite
from pipeline.types import Issue, SourceFile

SIZE = 200_000
SHAPES = {
    "spaces": " " * SIZE,
    "line breaks": "\n" * SIZE,
    "letters": "a" * SIZE,
    "dots": ". " * (SIZE // 2),
    "dotted words": "a." * (SIZE // 2),
    "dots as unittest has them": "test_a (t.T)\n" + " ... " * (SIZE // 5),
    "brackets": "<" * SIZE,
    "tags": "<script>\n" * (SIZE // 9),
    "a fence of spaces": "<script>\n```\n" + "\n \n" * (SIZE // 3) + "</script>",
    "a delete of spaces": "a.py\n<<<<<<< DELETE" + " " * SIZE + "x",
    "divider lines": "a.py\n<<<<<<< SEARCH\n" + "=======\n" * 2000 + ">>>>>>> REPLACE",
}


def list_short(text: str) -> None:
    issue = Issue(repository="a/b", title="t", body=text)
    shortlist([SourceFile(path="a.py", text=text, tokens=1)], issue)


READERS: dict[str, Callable[[str], object]] = {
    "replies": lambda text: only_tag(text, "script", "approve"),
    "edit blocks": parse_blocks,
    "verdicts": lambda text: parse_verdict("a.py", text),
    "tokens": estimate,
    "shortlist": list_short,
    "suite": parse_suite,
    "nearest lines": lambda text: nearest(text, ["aaaa" * 20_000]),
    "replacement": lambda text: replace_once(text, ["x", *text.split("\n")], ["y"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_text_is_read_quickly(reader: str, shape: str) -> None:
    began = time.process_time()
    READERS[reader](SHAPES[shape])
    assert time.process_time() - began < 3
