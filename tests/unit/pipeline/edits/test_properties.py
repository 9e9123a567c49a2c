"""Of any file and any edit: never misapplied, always applied or explained."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.edits.match import Ambiguous, Missing, Unchanged, find_nearest, replace_once
from pipeline.edits.read import Block, ParsedEdit, parse_blocks, read_edit
from pipeline.replies import Malformed
from tests.support.data.repositories import applied, make_codebase

LINE = st.sampled_from(
    ["", "a", "b", "  a", "    a", "\ta", "a ", "x = 1", "=======", "ü→😀", "a\x0cb"]
)
LINES = st.lists(LINE, min_size=1, max_size=12)
SOME = st.lists(LINE, max_size=4)
ENDING = st.sampled_from(["\n", "\r\n"])
TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
PIECE = st.sampled_from(
    [
        "a.py\n",
        "<<<<<<< SEARCH\n",
        "=======\n",
        ">>>>>>> REPLACE\n",
        "<<<<<<< DELETE\n",
        "<<<<<<< RENAME b.py\n",
        "one\n",
        "two\n",
        "```\n",
        "\n",
        "words\n",
    ]
)
quick = settings(max_examples=300, deadline=None, derandomize=True)
slow = settings(max_examples=40, deadline=None, derandomize=True)


def times(lines: list[str], sought: list[str]) -> int:
    spans = range(len(lines) - len(sought) + 1)
    return sum(lines[at : at + len(sought)] == sought for at in spans)


@quick
@given(LINES, SOME, ENDING, st.booleans(), st.data())
def test_lines_that_are_there_once_are_replaced_and_nothing_else(
    lines: list[str], new: list[str], ending: str, ended: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start + 1, len(lines)))
    sought = lines[start:stop]
    last = "" if not ended and lines[-1] else ending
    if len(lines) == 1 and not last:
        ending = "\n"  # a file without any line break tells nothing of its own
    result = replace_once(ending.join(lines) + last, sought, new)
    if sought == new:
        assert isinstance(result, Unchanged)
    elif not any(sought):
        assert isinstance(result, Missing)
    elif times(lines, sought) > 1:
        assert isinstance(result, Ambiguous)
        assert len(result.at) == times(lines, sought)
    else:
        after = [*lines[:start], *new, *lines[stop:]]
        assert isinstance(result, str)
        assert result == ending.join(after) + (last if after else "")


@quick
@given(LINES, SOME, SOME)
def test_whatever_is_sought_only_lines_that_say_the_same_are_replaced(
    lines: list[str], sought: list[str], new: list[str]
) -> None:
    text = "".join(f"{line}\n" for line in lines)
    result = replace_once(text, sought, new)
    if not isinstance(result, str):
        return
    bare = [line.strip() for line in sought]
    while bare and not bare[0]:
        bare.pop(0)
    while bare and not bare[-1]:
        bare.pop()
    assert times([line.strip() for line in lines], bare) >= 1
    gone = len(lines) - len(result.splitlines()) if "\x0c" not in text else 0
    assert gone <= len(sought)


@quick
@given(TEXT, TEXT, TEXT)
def test_no_text_at_all_breaks_the_matching(text: str, search: str, new: str) -> None:
    result = replace_once(text, search.split("\n"), new.split("\n"))
    assert isinstance(result, str | Ambiguous | Unchanged | Missing)
    near = find_nearest(text, search.split("\n"))
    assert near is None or near[0] >= 1


@quick
@given(st.lists(PIECE, max_size=14).map("".join) | TEXT)
def test_any_body_is_blocks_or_an_explanation(body: str) -> None:
    match parse_blocks(body):
        case Malformed(hint):
            assert hint.endswith(".") or "RENAME" in hint
        case blocks:
            assert all(isinstance(block, Block) and block.path for block in blocks)


@slow
@given(st.lists(PIECE, max_size=14).map("".join))
def test_every_patch_applies_to_the_base(body: str) -> None:
    async def check(folder: Path) -> None:
        codebase = await make_codebase(folder / "r.git", {"a.py": "one\ntwo\n", "c.py": "one\n"})
        answer = await read_edit(body, codebase)
        if isinstance(answer, ParsedEdit):
            files = await applied(codebase, answer.patch.diff, folder / "out")
            assert files["c.py"] == b"one\n" or "c.py" in body
        else:
            assert answer.hint

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))
