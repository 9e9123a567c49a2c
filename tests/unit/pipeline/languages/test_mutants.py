"""Edits with one thing wrong, in each language that has a grammar."""

import pytest

from pipeline.languages.mutants import MOST_MUTANTS, spoil
from tests.support.texts import texts_of

ROWS = texts_of(__file__)

HEAD = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n"
ONE = "@@ -1,2 +1,2 @@\n def f(a):\n-    return a\n+    return a == 1\n"
TWO = "@@ -9,2 +9,2 @@\n def g(a):\n-    pass\n+    go(a)\n"


async def test_an_added_line_says_another_thing() -> None:
    (spoilt,) = await spoil(HEAD.format("a.py") + ONE)
    assert spoilt == (HEAD.format("a.py") + ONE).replace("==", "!=")


async def test_each_of_several_hunks_is_left_out_and_so_is_a_file_without_any() -> None:
    diff = HEAD.format("a.py") + TWO + HEAD.format("b.py") + TWO + TWO.replace("9", "30")
    spoilt = await spoil(diff)
    assert HEAD.format("b.py") + TWO + TWO.replace("9", "30") in spoilt
    assert HEAD.format("a.py") + TWO + HEAD.format("b.py") + TWO in spoilt
    assert len(spoilt) <= MOST_MUTANTS


async def test_what_cannot_be_spoilt_has_no_mutants() -> None:
    assert await spoil(HEAD.format("a.txt") + ONE) == ()
    assert await spoil(HEAD.format("a.py") + TWO) == ()
    assert await spoil("") == ()


async def test_what_a_string_says_is_not_spoilt() -> None:
    """A word in a pattern, which the edit had not changed, was turned around."""
    assert (
        await spoil(HEAD.format("a.py") + TWO.replace("go(a)", "go(r'or|not', \"it's == and\")"))
        == ()
    )
    mixed = TWO.replace("go(a)", "go('a or b' or c)")
    assert await spoil(HEAD.format("a.py") + mixed) == (
        HEAD.format("a.py") + mixed.replace("' or c", "' and c"),
    )


async def test_tests_and_documentation_stay_as_they_are() -> None:
    """A script never runs them, so it could not notice."""
    beside = HEAD.format("tests/test_a.py") + ONE + TWO + HEAD.format("docs/news.rst") + ONE + TWO
    (spoilt,) = await spoil(HEAD.format("a.py") + ONE + beside)
    assert spoilt == (HEAD.format("a.py") + ONE).replace("==", "!=") + beside
    assert await spoil(beside) == ()


@pytest.mark.parametrize(
    ("path", "line", "spoilt"), ROWS["a_line_is_spoilt_by_the_grammar_of_its_language"]
)
async def test_a_line_is_spoilt_by_the_grammar_of_its_language(
    path: str, line: str, spoilt: str
) -> None:
    """What strings, comments, types and macros say is not an operation."""
    diff = HEAD.format(path) + f"@@ -1,2 +1,3 @@\n \n+{line}\n \n"
    assert await spoil(diff) == ((diff.replace(line, spoilt),) if spoilt else ())


async def test_what_is_no_code_at_all_ends_soon_and_spoils_nothing() -> None:
    assert await spoil(HEAD.format("a.c") + "@@ -1 +1 @@\n+" + "(" * 100_000 + "\n") == ()
    many = "@@ -1 +1 @@\n+" + "9" * 5000 + "\n"
    assert await spoil(HEAD.format("a.js") + many) == ()
