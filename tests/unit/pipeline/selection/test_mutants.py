from __future__ import annotations

from pipeline.languages.python.source import MOST_MUTANTS, spoil

HEAD = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n"
ONE = "@@ -1,2 +1,2 @@\n def f(a):\n-    return a\n+    return a == 1\n"
TWO = "@@ -9,2 +9,2 @@\n def g(a):\n-    pass\n+    go(a)\n"


def test_an_added_line_says_another_thing() -> None:
    (spoilt,) = spoil(HEAD.format("a.py") + ONE)
    assert spoilt == (HEAD.format("a.py") + ONE).replace("==", "!=")


def test_each_of_several_hunks_is_left_out_and_so_is_a_file_without_any() -> None:
    diff = HEAD.format("a.py") + TWO + HEAD.format("b.py") + TWO + TWO.replace("9", "30")
    spoilt = spoil(diff)
    assert HEAD.format("b.py") + TWO + TWO.replace("9", "30") in spoilt
    assert HEAD.format("a.py") + TWO + HEAD.format("b.py") + TWO in spoilt
    assert len(spoilt) <= MOST_MUTANTS


def test_what_cannot_be_spoilt_has_no_mutants() -> None:
    assert spoil(HEAD.format("a.txt") + ONE) == ()
    assert spoil(HEAD.format("a.py") + TWO) == ()
    assert spoil("") == ()


def test_what_a_string_says_is_not_spoilt() -> None:
    """A word in a pattern, which the edit had not changed, was turned around."""
    assert spoil(HEAD.format("a.py") + TWO.replace("go(a)", "go(r'or|not', \"it's == and\")")) == ()
    mixed = TWO.replace("go(a)", "go('a or b' or c)")
    assert spoil(HEAD.format("a.py") + mixed) == (
        HEAD.format("a.py") + mixed.replace("' or c", "' and c"),
    )


def test_tests_and_documentation_stay_as_they_are() -> None:
    """A script never runs them, so it could not notice."""
    beside = HEAD.format("tests/test_a.py") + ONE + TWO + HEAD.format("docs/news.rst") + ONE + TWO
    (spoilt,) = spoil(HEAD.format("a.py") + ONE + beside)
    assert spoilt == (HEAD.format("a.py") + ONE).replace("==", "!=") + beside
    assert spoil(beside) == ()
