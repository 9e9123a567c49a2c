from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.context.files.chunks import Piece, split_file
from pipeline.context.files.sources import find_sources
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import SourceFile
from tests.support.data.repositories import make_codebase


def cut(text: str, window: int, path: str = "a.py") -> tuple[Piece, ...]:
    return split_file(SourceFile(path=path, text=text, tokens=estimate_tokens(text)), window)


def joined(text: str, parts: tuple[Piece, ...]) -> bool:
    """Whether the pieces are parts of `text` in order that leave nothing out."""
    at = 0
    for piece in parts:
        begin = text.rfind(piece.text, 0, at + len(piece.text))
        if begin == -1 or begin > at:
            return False
        at = begin + len(piece.text)
    return at == len(text)


PYTHON = "".join(
    f"# about {n}\n@decorated\ndef function_{n}(argument):\n    return argument + {n}\n\n\n"
    for n in range(100)
)
GO = "package a\n\n" + "".join(
    f"func F{n}(x int) int {{\n\treturn x + {n}\n}}\n\n" for n in range(99)
)
CLASSES = "".join(
    f"class C{n}:\n" + "".join(f"    def m{m}(self):\n        return {m}\n\n" for m in range(9))
    for n in range(9)
)


def test_a_file_that_fits_is_one_piece() -> None:
    assert cut(PYTHON, 100_000) == (
        Piece("a.py", PYTHON, estimate_tokens(PYTHON), 1, PYTHON.count("\n"), 1, 1),
    )


def test_pieces_begin_at_definitions_with_their_comments_and_decorators() -> None:
    parts = cut(PYTHON, 500)
    assert len(parts) > 4
    assert all(piece.text.startswith("# about") for piece in parts)
    assert joined(PYTHON, parts)


def test_other_languages_are_cut_at_definitions_too() -> None:
    parts = cut(GO, 500, "a.go")
    assert all(piece.text.startswith("func F") for piece in parts[1:])
    assert joined(GO, parts)


def test_whole_classes_stay_together_where_that_fills_half_a_window() -> None:
    parts = cut(CLASSES, estimate_tokens(CLASSES) // 3)
    assert len(parts) > 2
    after = [CLASSES.split("\n")[piece.last] for piece in parts[:-1]]
    assert all(line.startswith("class C") for line in after)


def test_pieces_fit_overlap_and_say_where_they_are() -> None:
    parts = cut(PYTHON, 500)
    lines = PYTHON.split("\n")
    assert all(estimate_tokens(piece.text) <= 500 for piece in parts)
    for number, piece in enumerate(parts, 1):
        assert (piece.number, piece.of) == (number, len(parts))
        assert piece.text == "\n".join(lines[piece.first - 1 : piece.last]) + "\n"
    assert all(one.last >= other.first for one, other in pairwise(parts))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=120), max_size=60).map("\n".join),
    st.sampled_from(["a.py", "a.c", "a.txt", "a.go"]),
)
# Its last blank lines weigh more together than each by itself.
@example(
    "\n\x80\n𐀀\n000𐀀𐀀\n000𐀀𐀀\n000𐀀𐀀\n00\x800𐀀\n\x800\x80\n0000𐀀𐀀\n0\x800\x80𐀀𐀀𐀀\n00𐀀 \r\n\n", "a.py"
)
def test_whatever_the_text_nothing_is_lost_and_every_piece_fits(text: str, path: str) -> None:
    parts = cut(text, 100, path)
    assert joined(text, parts)
    assert all(estimate_tokens(piece.text) <= 100 for piece in parts)


@pytest.mark.parametrize("text", ["x" * 50_000, "(" * 9_000, "é漢" * 5_000, "\n" * 9_000])
def test_a_line_longer_than_the_window_is_cut_by_itself(text: str) -> None:
    parts = cut(text, 200)
    assert joined(text, parts)
    assert all(estimate_tokens(piece.text) <= 200 for piece in parts)


@pytest.mark.parametrize(
    ("path", "text", "head"),
    [
        ("a.py", "class A(B):\n" + "    def f(self):\n        return 1\n\n" * 200, "class A(B):\n"),
        (
            "a.py",
            "@d\nclass A:\n    def f(\n        self,\n    ):\n" + "        x = 1\n" * 900,
            "class A:\n    def f(\n        self,\n    ):\n",
        ),
        ("a.go", "func F(x int) {\n" + "\tprint(x)\n" * 900 + "}\n", "func F(x int) {\n"),
        (
            "a.js",
            "class A extends B {\n" + "  f() { return 1 }\n" * 400 + "}\n",
            "class A extends B {\n",
        ),
    ],
)
def test_a_later_piece_knows_what_it_lies_in(path: str, text: str, head: str) -> None:
    first, *rest = cut(text, 500, path)
    assert len(rest) > 1
    assert first.within == ""
    assert {piece.within for piece in rest} == {head}


def test_a_piece_after_the_end_of_a_class_lies_in_nothing_and_long_heads_are_clipped() -> None:
    text = "class A:\n    x = 1\n" + "print(1)\n" * 900
    assert {piece.within for piece in cut(text, 500)} == {""}
    long = f"def f({', '.join(f'a{n}=1' for n in range(300))}):\n" + "    print(1)\n" * 900
    assert 0 < len(cut(long, 2000)[-1].within) < 200


def test_a_window_too_small_to_hold_anything_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 100"):
        cut("x", 99)


async def test_where_to_cut_is_found_out_once_for_each_content(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"a.py": PYTHON, "b.py": PYTHON})
    sources = await find_sources(codebase)
    first = await sources.split("a.py", 500)
    assert first == cut(PYTHON, 500)
    again = await sources.split("b.py", 500)
    assert [piece.text for piece in again] == [piece.text for piece in first]
    assert again[0].path == "b.py"
