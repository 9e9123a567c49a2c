"""What the text of an edit says."""

import math
from collections.abc import Sequence
from functools import cache

import pytest

from pipeline.selection.scoring.canonical import CanonicalEdit, normalise
from pipeline.selection.scoring.confidence import (
    Weights,
    choose,
    load_shipped_model,
    log_odds,
    ranking,
    weights_for,
)
from pipeline.selection.scoring.features import (
    Cluster,
    best,
    clusters,
    compute_text_evidence,
    means,
    measure_extent,
    medoid,
    similarities,
    token_bag,
)
from tests.support.data.diffs import diff_of
from tests.support.texts import texts_of

ISSUE = "total() in till.py subtracts prices instead of adding them: TypeError is raised for None"
TEXTS = texts_of(__file__)
BASE: str = TEXTS["BASE"]


def edit(line: str, after: str = "") -> str:
    return diff_of(BASE, BASE.replace("result -= price", line) + after, "shop/till.py")


PLUS = edit("result += price")
WITH_NEW_FILE = PLUS + diff_of("", "def add(a, b):\n    return a + b\n", "shop/adding.py")
ONLY_REMOVES = diff_of(BASE, BASE.replace("    return result\n", ""), "shop/till.py")
CASES = {
    "all equal": [PLUS] * 4,
    "all but one equal": [PLUS, PLUS, PLUS, edit("return sum(prices)")],
    "two small, two large": [PLUS, PLUS, *[edit("try:\n            f()\n        except:\n 1")] * 2],
    "all different": [PLUS, edit("result += abs(price)"), edit("raise Bad"), edit("pass")],
    "one other": [PLUS, edit("result = add(result, price)", "def add(a, b):\n    return a + b\n")],
    "the smallest of large ones": [PLUS, *(edit("f(\n" + "a,\n" * n + ")") for n in (20, 40, 80))],
    "a new file": [WITH_NEW_FILE, PLUS, edit("result += abs(price)")],
    "only removes": [ONLY_REMOVES, PLUS, PLUS],
    "only adds": [edit("result -= -price", "X = 1\n"), diff_of(BASE, BASE + "Y = 1\n")],
    "alone": [PLUS],
}


def useless(lines: int) -> str:
    text = "".join(f"UNUSED_{n} = {n} * {n} // 7\n" for n in range(lines))
    return diff_of("", text, "shop/more.py")


NAMED = diff_of(
    "", "import till\ntotal = prices = None\nTypeError\ntill = adding\n", "shop/till.pyx"
)
PADDING = {
    **{f"{lines} lines": useless(lines) for lines in (2, 20, 500, 5_000)},
    "functions": diff_of("", "try:\n    import math\nexcept OSError:\n    raise\n", "shop/a.py"),
    "the issue's words": NAMED,
    "many files": "".join(diff_of("", f"X = {n}\n", f"shop/part{n}.py") for n in range(50)),
}


@cache
def form(diff: str) -> CanonicalEdit:
    return normalise(diff)


def compute_gains(
    case: Sequence[str], padded: str, fits: Sequence[Weights]
) -> list[tuple[float, float]]:
    """By how much padding raises the first edit's log-odds, and its lead over any of the others.

    One pair for each of `fits`. The evidence is the same for all of them.
    """
    before = compute_text_evidence([form(diff) for diff in case], ISSUE)
    after = compute_text_evidence([form(padded), *(form(diff) for diff in case[1:])], ISSUE)
    gains: list[tuple[float, float]] = []
    for weights in fits:
        old, new = ranking(before, weights), ranking(after, weights)
        others = range(1, len(case))
        lead = max(((new[0] - new[o]) - (old[0] - old[o]) for o in others), default=0.0)
        gains.append((log_odds(after, weights, 0) - log_odds(before, weights, 0), lead))
    return gains


def scripts(count: int) -> str:
    return "".join(diff_of("", "print(1)\n", f"debug_{n}.py") for n in range(count))


def list_fits() -> list[Weights]:
    fit = load_shipped_model().fit
    return [fit.whole, *fit.without.values()]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("padding", PADDING.values(), ids=PADDING)
def test_an_edit_with_something_useless_is_never_better_than_without(
    case: Sequence[str], padding: str
) -> None:
    for odds, lead in compute_gains(case, case[0] + padding, list_fits()):
        assert odds <= 1e-9
        assert lead <= 1e-9


def test_a_needless_file_of_50_000_lines_makes_nothing_better() -> None:
    padding = useless(50_000)
    for name in ("all but one equal", "the smallest of large ones"):
        ((odds, lead),) = compute_gains(CASES[name], CASES[name][0] + padding, [weights_for(None)])
        assert odds < 0
        assert lead < 0


def test_two_equal_small_edits_come_before_one_with_a_needless_file() -> None:
    big = form(PLUS + useless(5_000))
    for forms in ([big, form(PLUS), form(PLUS)], [form(PLUS), big, form(PLUS)]):
        evidence = compute_text_evidence(forms, ISSUE)
        chosen = choose(evidence, weights_for(None))
        assert all(forms[c] != big for c in chosen)


def test_many_left_scripts_speak_for_an_edit_no_more_than_one() -> None:
    for case in CASES.values():
        one = [case[0] + scripts(1), *case[1:]]
        for odds, lead in compute_gains(one, case[0] + scripts(30), list_fits()):
            assert odds <= 1e-9
            assert lead <= 1e-9


def test_no_shipped_weight_rewards_what_can_be_added_at_will() -> None:
    from tests.benchmarks.fitting.fit_confidence import (
        weight_sign,  # loads SciPy: not while collecting
    )

    for weights in list_fits():
        for name, weight in (*weights.rank.items(), *weights.probability.items()):
            assert weight * weight_sign(name) >= 0, name


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


UNITY = TEST.replace("assert b", "    TEST_ASSERT_TRUE(b);")
FIXTURE = "--- a/test/data/h.html\n+++ b/test/data/h.html\n@@ -1 +1 @@\n-<p>#</p>\n+<h1></h1>\n"


@pytest.mark.parametrize(
    "more",
    [
        UNITY,
        FIXTURE,
        *(
            TEST.replace("assert b", line)
            for line in (
                "ck_assert_int_eq(a, b);",
                "QCOMPARE(a, b);",
                "XCTAssertEqual(a, b)",
                "assert_that(a).equals(b)",
                "a shouldBe b",
                "try testing.expectEqual(a, b);",
                "refute a",
                "BOOST_CHECK_EQUAL(a, b);",
                "QUnit.assert.equal(a, b)",
            )
        ),
    ],
)
def test_every_frameworks_checks_and_mended_fixtures_are_tests(more: str) -> None:
    assert measure_extent(CODE + more).companions == {"tests"}


def test_an_edit_that_deletes_a_test_brings_nothing() -> None:
    assert measure_extent(CODE + NO_TEST + NEWS).companions == set()


SHORT = "def f(a):\n    return a\n"


def form_of_line(line: str) -> CanonicalEdit:
    return normalise(diff_of(SHORT, SHORT.replace("return a", line)))


def test_equal_edits_are_one_candidate_with_more_support() -> None:
    keys = [
        form_of_line(text).key for text in ("return a + 1", "return 2", "return a+1  # one more")
    ]
    found = clusters(keys)
    assert found == [Cluster((0, 2)), Cluster((1,))]
    assert [cluster.support for cluster in found] == [2, 1]
    assert clusters([]) == []


def test_similarity_is_one_with_itself_and_nothing_with_what_shares_nothing() -> None:
    one, other = form_of_line("return a + 1"), normalise(diff_of("x = 1\n", "x = 2\n", "b.js"))
    matrix = similarities([token_bag(f) for f in (one, other, one)])
    assert matrix == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert means(matrix) == [0.5, 0, 0.5]
    assert similarities([frozenset(), frozenset()]) == [[1, 0], [0, 1]]
    assert similarities([]) == means([]) == []


def test_similarity_counts_elements_that_are_repeated() -> None:
    bags = [frozenset({1, 2, 3}), frozenset({2, 3, 4}), frozenset({3, 9})]
    assert similarities(bags)[0] == [1, pytest.approx(2 / 4), pytest.approx(1 / 4)]


def test_the_medoid_is_most_like_all_others() -> None:
    forms = [
        form_of_line(f"return g({inside})")
        for inside in ("a, 1", "a, 1, 2", "b * 7 / c", "a, 1, 3")
    ]
    assert medoid(forms) == [0]
    assert medoid([forms[2]]) == [0]
    assert medoid([]) == []


def test_the_best_are_all_that_score_highest() -> None:
    assert best([0, 1, 2], [1.0, 3.0, 3.0]) == [1, 2]
    assert best([0, 2], [1.0, 9.0, 1.0]) == [0, 2]


def test_evidence_counts_support_and_agreement() -> None:
    forms = [form_of_line("return a + 1"), form_of_line("return a+1"), form_of_line("return 2")]
    evidence = compute_text_evidence(forms, "f should return 2")
    assert [row["support"] for row in evidence.rows] == [math.log(2), math.log(2), 0]
    assert evidence.agreement["distinct"] == pytest.approx(2 / 3)


def test_edits_that_are_all_equal_agree_wholly_and_none_at_all_is_no_evidence() -> None:
    same = compute_text_evidence([form_of_line("return 2")] * 3)
    assert same.agreement["similarity"] == 1
    assert compute_text_evidence([]).rows == ()
