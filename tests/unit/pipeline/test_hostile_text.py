"""Text of any shape is read in a time that grows with its length, not with its square."""

import time
from collections.abc import Callable

import pytest

from pipeline.context.files.chunks import split_file
from pipeline.context.retrieval.mentions import find_named_files
from pipeline.context.scout import parse_verdict as parse_verdict
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import SourceFile
from pipeline.data.types import Issue
from pipeline.edits.match import find_nearest, replace_once
from pipeline.edits.read import parse_blocks
from pipeline.languages.readers import parse_console_output
from pipeline.replies import Malformed, only_tag

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
    find_named_files(Issue(repository="a/b", title="t", body=text), ["a.py"])


def cut(text: str) -> None:
    split_file(SourceFile(path="a.py", text=text, tokens=1), 2000)


READERS: dict[str, Callable[[str], object]] = {
    "replies": lambda text: only_tag(text, "script", "approve"),
    "edit blocks": parse_blocks,
    "verdicts": parse_verdict,
    "tokens": estimate_tokens,
    "suite": parse_console_output,
    "named files": names,
    "pieces": cut,
    "nearest lines": lambda text: find_nearest(text, ["aaaa" * 20_000]),
    "replacement": lambda text: replace_once(text, ["x", *text.split("\n")], ["y"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_text_is_read_quickly(reader: str, shape: str) -> None:
    began = time.process_time()
    READERS[reader](SHAPES[shape])
    assert time.process_time() - began < 3


def test_an_edits_blocks_are_searched_in_linear_time() -> None:
    lines = "a\n" * 100_000
    began = time.thread_time()
    found = replace_once(lines + "b\n", ["a"] * 3_000 + ["b"], ["c"])
    assert time.thread_time() - began < 1
    assert found == "a\n" * 97_000 + "c\n"


def test_an_edit_of_very_many_blocks_is_refused() -> None:
    block = "a.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"
    answer = parse_blocks(block * 600)
    assert isinstance(answer, Malformed)
    assert "more than 500 blocks" in answer.hint
