"""Of edits that behave alike, the one that does all that a maintainer expects is the best."""

from __future__ import annotations

from pipeline.selection.scoring.features import measure_extent

CODE = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n-a\n+b\n"
TEST = "--- a/tests/test_shop.py\n+++ b/tests/test_shop.py\n@@ -1 +1,2 @@\n a\n+assert b\n"
NEWS = "--- a/CHANGES.rst\n+++ b/CHANGES.rst\n@@ -1 +1,2 @@\n a\n+b\n"
NO_TEST = "--- a/tests/test_shop.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"


def test_a_test_and_a_changelog_entry_count_for_more_than_a_test() -> None:
    found = [measure_extent(CODE + more).companions for more in ("", TEST, NEWS, TEST + NEWS)]
    assert found == [set(), {"tests"}, {"the changelog"}, {"tests", "the changelog"}]


def test_documentation_beside_a_changelog_entry_counts_for_more_than_the_entry() -> None:
    """Of two edits of equal code, the one that also mended the documentation lost."""
    page = NEWS.replace("CHANGES.rst", "docs/usage.rst")
    assert measure_extent(CODE + NEWS + page).companions == {"the changelog", "documentation"}
    entry = NEWS.replace("CHANGES.rst", "doc/whatsnew/2.10.rst")
    assert measure_extent(CODE + NEWS + entry).companions == {"the changelog"}


def test_a_file_beside_the_tests_in_which_nothing_is_checked_is_no_test() -> None:
    """Seen with pylint's issue 4604: lines of a data file shifted what a test expects."""
    data = TEST.replace("test_shop.py", "functional/shop.py").replace("assert b", "import b")
    assert measure_extent(CODE + data).companions == set()


def test_an_edit_that_deletes_a_test_brings_nothing() -> None:
    assert measure_extent(CODE + NO_TEST + NEWS).companions == set()
