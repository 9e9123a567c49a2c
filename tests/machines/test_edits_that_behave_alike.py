"""Edits that no script tells apart: a model may, else what their texts are like."""

import re
from pathlib import Path

import pytest

from pipeline.data.types import Selection
from pipeline.regression.suite import RegressionSuite
from tests.machines.choosing import NO_LOOP, SMALLEST, alike, asked, chosen_by
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    FILES,
    GOOD_EDIT,
    GOOD_SCRIPT,
    WEAK_SCRIPT,
    Shop,
    open_shop,
    sample,
)

TEST_TOO = GOOD_EDIT.removesuffix("</edit>") + (
    "tests/test_till.py\n<<<<<<< SEARCH\ndef test_total_of_nothing():\n=======\n"
    "def test_total_adds():\n    assert total([1, 2]) == 3\n\n\ndef test_total_of_nothing():\n"
    ">>>>>>> REPLACE\n</edit>"
)
NOTED_TOO = TEST_TOO.removesuffix("</edit>") + (
    "docs/news.md\n<<<<<<< SEARCH\n=======\nTotals add up.\n>>>>>>> REPLACE\n</edit>"
)


async def test_the_smallest_stands_first_where_a_model_tells_them_apart_by_nothing(
    shop: Shop,
) -> None:
    chosen, model = await chosen_by(shop, "evidence", alike(NO_LOOP, GOOD_EDIT), samples=2)
    first = model.conversations["selecting"][1].text
    assert first.index("+    return sum(prices)") < first.index(
        "+        result += price"
    )  # turned
    assert "+        result += price" in chosen.candidate.patch.diff
    assert chosen.decided_by == "model"
    assert "2 different edits" in why(chosen)
    assert "smallest" not in why(chosen)  # which is not why
    assert "written differently" not in why(chosen)


async def test_a_script_of_the_choice_tells_apart_what_nothing_else_did(shop: Shop) -> None:
    """Seen with pytest's issue 7236 and toml's 454: the wrong one was chosen, and nobody asked."""
    answers = alike(ABSOLUTE_EDIT, NO_LOOP)
    answers["selecting"] = [
        "<script>\nimport sys\nfrom shop.till import total\n"
        "sys.exit(0 if total([-1, -2]) == -3 else 2)\n</script>",
        lambda said: (
            f"<choice>{'AB'['Candidate B:' in said[1].text.split('sum(prices)')[0]]}</choice>"
        ),
    ]
    chosen, model = await chosen_by(shop, "evidence", answers, samples=2)
    assert asked(model, "selecting") == 2  # the run carries the choice
    assert "sum(prices)" in chosen.candidate.patch.diff
    assert "behave alike" not in why(chosen)
    assert len({one.behaves_as for one in chosen.evidence.standings}) == 2


async def test_an_edit_that_passes_what_parts_the_one_that_stood_for_it_meets_the_winner(
    shop: Shop,
) -> None:
    """Seen with pylint's issue 8898: a right edit fell with the wrong one that behaved like it."""
    script = (
        "<script>\nimport sys\nfrom shop.till import total\n"
        "sys.exit(0 if total([-1, -2]) == -3 else 2)\n</script>"
    )
    answers = alike(ABSOLUTE_EDIT, NO_LOOP, GOOD_EDIT, ABSOLUTE_EDIT)
    answers["selecting"] = [
        script,
        lambda said: f"<choice>{'AB'['abs' in said[1].text.split('Candidate B:')[0]]}</choice>",
        "<alike/>\n\n<choice>A</choice>",
        "<alike/>\n\n<choice>A</choice>",
    ]
    chosen, model = await chosen_by(shop, "evidence", answers, samples=4, finalists=2)
    assert len(chosen.evidence.finalists) == 3
    assert [len(one.candidates) for one in chosen.evidence.further] == [3]
    assert asked(model, "selecting") > 2
    assert "less evidence" not in why(chosen)
    assert "abs(" not in chosen.candidate.patch.diff


async def test_edits_that_a_model_finds_alike_are_not_compared_again(shop: Shop) -> None:
    answers = alike(NO_LOOP, GOOD_EDIT)
    answers["selecting"] = [WEAK_SCRIPT, "<alike/>\n\n<choice>A</choice>"]
    chosen, model = await chosen_by(shop, "evidence", answers, samples=2)
    assert asked(model, "selecting") == 2
    assert chosen.decided_by == "model"


async def test_edits_of_equal_code_are_no_choice_for_a_model(shop: Shop) -> None:
    commented = GOOD_EDIT.replace("+= price", "+= price  # Each one.")
    _, model = await chosen_by(shop, "evidence", alike(commented, GOOD_EDIT), samples=2)
    assert asked(model, "selecting") == 0


async def test_edits_of_the_same_code_count_as_one(shop: Shop) -> None:
    commented = GOOD_EDIT.replace("+= price", "+= price  # Each one.")
    chosen, _ = await chosen_by(shop, "evidence", alike(commented, GOOD_EDIT), samples=2)
    said = "2 edits make the same change; of these, the chosen one is the smallest."
    assert said in why(chosen)
    assert "different edits" not in why(chosen)
    assert "other words" not in why(chosen).replace(said, "")  # once is enough


async def test_how_many_make_the_same_change_is_not_how_many_pass(shop: Shop) -> None:
    commented = GOOD_EDIT.replace("+= price", "+= price  # Each one.")
    edits = alike(commented, GOOD_EDIT, NO_LOOP)
    chosen, _ = await chosen_by(shop, "evidence", edits, samples=3)
    assert re.search(r"\b3 samples\b.+\b2 different edits\b.+\b2 of them\b", why(chosen))


async def test_of_equal_code_the_edit_with_a_test_wins_whatever_its_text_is_like(
    shop: Shop,
) -> None:
    """Seen with pylint's issue 4604: the more tests an edit had, the less it looked like others."""
    tested = GOOD_EDIT.removesuffix("</edit>") + (
        "tests/test_more.py\n<<<<<<< SEARCH\n=======\nfrom shop.till import total\n\n\n"
        "def test_total_adds():\n    assert total([1, 2]) == 3\n>>>>>>> REPLACE\n</edit>"
    )
    edits = alike(GOOD_EDIT, tested, SMALLEST)
    chosen, _ = await chosen_by(shop, "evidence", edits, samples=3)
    assert "def test_total_adds" in chosen.candidate.patch.diff


async def test_what_three_of_four_samples_wrote_comes_before_a_smaller_edit(shop: Shop) -> None:
    loops = [GOOD_EDIT.replace("+= price", f"+= price  # Each{'.' * n}") for n in (1, 2, 3)]
    edits = alike(loops[1], SMALLEST, loops[0], loops[2])
    chosen, _ = await chosen_by(shop, "evidence", edits, samples=4)
    assert "+        result += price  # Each.\n" in chosen.candidate.patch.diff
    assert re.search(r"\b4 samples\b.+\b2 different edits\b.+\b3 of them\b", why(chosen))
    assert "of the 3 other edits" not in why(chosen)


async def test_a_script_that_expects_too_much_is_said_to_fail_every_edit(shop: Shop) -> None:
    answers = alike(NO_LOOP, GOOD_EDIT)
    answers["testing/1"] = [GOOD_SCRIPT.replace("[1, 2]) == 3", "[1, 2]) == 4"), APPROVE]
    answers["editing/1"] = [GOOD_EDIT, APPROVE]
    chosen, _ = await chosen_by(shop, "evidence", answers, samples=2)
    assert "1 of the 2 scripts" in why(chosen)


async def test_one_that_changes_a_test_too_comes_before_a_smaller_one(shop: Shop) -> None:
    chosen, _ = await chosen_by(shop, "evidence", alike(GOOD_EDIT, TEST_TOO), samples=2)
    assert "test_total_adds" in chosen.candidate.patch.diff
    assert "also changes tests" in why(chosen)


async def test_what_the_others_change_as_well_is_not_called_its_own(shop: Shop) -> None:
    chosen, _ = await chosen_by(shop, "evidence", alike(TEST_TOO, NOTED_TOO), samples=2)
    assert "docs/news.md" in chosen.candidate.patch.diff
    said = (
        "2 edits make the same change; of these, the chosen one is the only one that also changes"
    )
    assert f"{said} the changelog." in why(chosen)


async def test_tests_that_edits_of_the_same_code_bring_compare_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise AssertionError("edits of the same code end alike with every test")

    monkeypatch.setattr(RegressionSuite, "run_brought_tests", fail)
    chosen, _ = await chosen_by(shop, "evidence", alike(TEST_TOO, NOTED_TOO), samples=2)
    assert len({standing.behaves_as for standing in chosen.evidence.standings}) == 1


async def test_edits_that_behave_differently_are_distinguished_by_a_script(shop: Shop) -> None:
    answers = {
        **alike(NO_LOOP, GOOD_EDIT, ABSOLUTE_EDIT),
        "selecting": [
            "<script>\nimport sys\nfrom shop.till import total\n"
            "sys.exit(0 if total([-1, -2]) == -3 else 2)\n</script>",
            "<why>\nThe other edit counts\nrefunds as sales.\n</why>\n\n<choice>B</choice>",
        ],
    }
    answers |= sample(
        2,
        ABSOLUTE_EDIT,
        APPROVE,
        test="<script>\nimport sys\nfrom shop.till import total\n"
        "sys.exit(0 if total([1, -2]) > 0 and total([1, 2]) > 0 else 2)\n</script>",
    )
    answers["selecting"].insert(0, "<bash>\ncat shop/till.py; rm -r shop\n</bash>")
    chosen, model = await chosen_by(shop, "evidence", answers, samples=3)
    assert asked(model, "selecting") == 3  # the run carries the choice, whichever order it is in
    looked = model.conversations["selecting"][3].text
    assert looked.count("def total") == 2
    assert "<choice>" not in looked  # no script has run yet
    assert chosen.evidence.selection_rounds == 1
    assert re.search(r"\bedit A\b.+\bA passes and B fails\b", why(chosen))
    assert "“The other edit counts refunds as sales.”" in why(chosen)
    shared, first = (m.text for m in model.conversations["selecting"][:2])
    assert "Candidate" not in shared  # so that the other order can read it from the cache
    assert "def total" in shared
    assert "Candidate A:" in first
    assert "Candidate B:" in first
    assert "Candidate C:" not in first
    assert re.search(r"\bC\b.+\bB\b.+ran with both", first)
    assert "2 pass" in first


def why(chosen: Selection) -> str:
    return chosen.evidence.why


BRINGS_TEST = GOOD_EDIT.removesuffix("</edit>") + (
    "tests/test_till.py\n<<<<<<< SEARCH\ndef test_total_of_nothing():\n=======\n"
    "def test_total_of_refunds():\n    assert total([-1, -2]) == -3\n\n\n"
    "def test_total_of_nothing():\n>>>>>>> REPLACE\n</edit>"
)


async def test_a_test_that_one_edit_brings_shows_that_another_behaves_differently(
    shop: Shop,
) -> None:
    # Every script passes with both edits; only the brought test finds that one takes abs().
    answers = {
        **alike(ABSOLUTE_EDIT, BRINGS_TEST),
        "selecting": [
            "<script>\nimport sys\nfrom shop.till import total\n"
            "sys.exit(0 if total([-1, -2]) == -3 else 2)\n</script>",
            "<choice>B</choice>",
        ],
    }
    chosen, model = await chosen_by(shop, "evidence", answers, samples=2)
    assert asked(model, "selecting") == 2
    finalists = model.conversations["selecting"][1].text
    assert "Candidate A:" in finalists
    brought = "With it, tests/test_till.py::test_total_of_refunds fails: B brings this test."
    assert finalists.count(brought) == 1
    assert len({standing.behaves_as for standing in chosen.evidence.standings}) == 2
    # What it brings told them apart before the suite ran: with both.
    assert [one.broken for one in chosen.evidence.standings] == [(), ()]


async def test_a_flaky_test_that_ran_with_brought_ones_tells_no_edits_apart(tmp_path: Path) -> None:
    path = "tests/test_till.py"
    # Python's hash seed is 0 in a first run, 1 in the second.
    flaky = (
        "\n\ndef test_of_old():\n    from shop.till import total\n"
        "    assert total([-1]) != 1 or hash('sun') % 2\n"
    )
    shop = await open_shop(tmp_path, {**FILES, path: FILES[path] + flaky})
    answers = {**alike(ABSOLUTE_EDIT, TEST_TOO), "selecting": ["<alike/>"]}
    chosen, model = await chosen_by(shop, "evidence", answers, samples=2)
    assert "test_of_old" not in model.conversations["selecting"][1].text
    assert len({standing.behaves_as for standing in chosen.evidence.standings}) == 1
