"""Text of any shape is read in a time that grows with its length, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pipeline.context.files.chunks import pieces
from pipeline.context.relevance.verdict import parse as parse_verdict
from pipeline.context.search.mentions import named_files
from pipeline.context.tokens import estimate
from pipeline.edits.blocks import parse_blocks
from pipeline.edits.match import nearest, replace_once
from pipeline.regression.console_output import read_printed
from pipeline.replies import only_tag
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


def names(text: str) -> None:
    named_files(Issue(repository="a/b", title="t", body=text), ["a.py"])


def cut(text: str) -> None:
    pieces(SourceFile(path="a.py", text=text, tokens=1), 2000)


READERS: dict[str, Callable[[str], object]] = {
    "replies": lambda text: only_tag(text, "script", "approve"),
    "edit blocks": parse_blocks,
    "verdicts": parse_verdict,
    "tokens": estimate,
    "suite": read_printed,
    "named files": names,
    "pieces": cut,
    "nearest lines": lambda text: nearest(text, ["aaaa" * 20_000]),
    "replacement": lambda text: replace_once(text, ["x", *text.split("\n")], ["y"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_text_is_read_quickly(reader: str, shape: str) -> None:
    began = time.process_time()
    READERS[reader](SHAPES[shape])
    assert time.process_time() - began < 3
