"""Each rung of the reproduction test, executed red before and green after."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.codebase.commit import read_history
from pipeline.data.types import NoFix, Selection
from pipeline.regression.suite import RegressionSuite
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore
from pipeline.workflows.outcome import load_context
from tests.support.data.solver_shop import (
    APPROVE,
    BREAKING_EDIT,
    FILES,
    GOOD_EDIT,
    ISSUE,
    TEST_FILE,
    Shop,
    open_shop,
    simple,
)
from tests.support.fakes import Answer, ScriptedModel
from tests.support.texts import texts_of

WORDS = "<title>Add up</title>\n<cause>The sign.</cause>\n<change>It adds.</change>"
OWN_TEST = (
    "tests/test_till.py\n<<<<<<< SEARCH\ndef test_total_of_nothing():\n=======\n"
    "def test_total_adds():\n    assert total([1, 2]) == 3\n\n\ndef test_total_of_nothing():\n"
    ">>>>>>> REPLACE\n</edit>"
)
EXTENSION = f"<edit>\n{OWN_TEST}\n{WORDS}"
USELESS = EXTENSION.replace("== 3", "!= 99")


async def end(
    shop: Shop, *reproduction: Answer, edit: str = GOOD_EDIT, **options: Any
) -> tuple[Selection | NoFix, ScriptedModel]:
    model = ScriptedModel(simple(edit, APPROVE, reproduction=list(reproduction)))
    return await shop.solver(model, **options).solve(ISSUE), model


async def rung(
    shop: Shop, *reproduction: Answer, edit: str = GOOD_EDIT, **options: Any
) -> tuple[Selection, ScriptedModel]:
    result, model = await end(shop, *reproduction, edit=edit, **options)
    assert isinstance(result, Selection), result
    proof = result.evidence.reproduction
    assert not proof.before.passed
    assert proof.after.passed
    return result, model


async def test_tests_that_the_edit_brought_are_taken_and_only_words_are_asked_for(
    shop: Shop,
) -> None:
    both = GOOD_EDIT.removesuffix("</edit>") + OWN_TEST
    result, model = await rung(shop, WORDS, edit=both)
    proof = result.evidence.reproduction
    assert (proof.rung, proof.path) == ("the edit's own tests", "tests/test_till.py")
    assert "brought its own test" in shop.said[-1]
    assert not any("regression test" in sentence for sentence in shop.said)
    assert "shop/till.py" not in proof.diff
    assert len(model.conversations["reproduction"]) == 1
    assert result.is_shown


async def test_tests_that_the_edit_brought_run_alone_where_others_of_their_file_fail(
    tmp_path: Path,
) -> None:
    path = "tests/test_till.py"
    far = f"{FILES[path]}\n\ndef test_of_the_network():\n    raise ConnectionError\n"
    shop = await open_shop(tmp_path, {**FILES, path: far})
    both = GOOD_EDIT.removesuffix("</edit>") + OWN_TEST
    result, _ = await rung(shop, WORDS, edit=both)
    proof = result.evidence.reproduction
    assert (proof.rung, proof.path) == ("the edit's own tests", path)
    assert proof.command[-3:] == ("-k", "test_total_adds", path)


async def test_tests_of_the_edit_that_fail_with_it_are_named(shop: Shop) -> None:
    fails = OWN_TEST.replace("== 3", "== 4")
    result, _ = await rung(shop, TEST_FILE, edit=GOOD_EDIT.removesuffix("</edit>") + fails)
    assert result.evidence.reproduction.rung == "new file"
    assert "tests/test_till.py" in result.evidence.notes[0]


async def test_the_nearest_test_file_is_extended_and_only_the_wrong_block_is_asked_for_again(
    shop: Shop,
) -> None:
    retry = EXTENSION.removesuffix(WORDS)
    result, model = await rung(shop, USELESS, retry)
    proof = result.evidence.reproduction
    assert (proof.rung, proof.path) == ("extension", "tests/test_till.py")
    assert "-def" not in proof.diff
    assert "def test_count" in proof.text
    said = model.conversations["reproduction"]
    shown = [said[0].text.count(f'<file path="{path}">') for path in (proof.path, "shop/till.py")]
    assert shown == [1, 1]
    assert (result.evidence.title, result.evidence.notes) == ("Add up", ())
    assert "reproduction test" in shop.said[-1]


async def test_what_the_edit_breaks_in_the_file_that_is_extended_is_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_none(_: RegressionSuite, diffs: Sequence[str]) -> list[None]:
        return [None for _ in diffs]

    async def load_none(_: RegressionSuite, diff: str) -> None:
        del diff

    monkeypatch.setattr(RegressionSuite, "compare_all", run_none)
    monkeypatch.setattr(RegressionSuite, "load_near", load_none)
    result, _ = await rung(shop, EXTENSION, edit=BREAKING_EDIT)
    assert result.evidence.reproduction.rung == "extension"
    assert result.evidence.suite is not None
    assert result.evidence.suite.broken == ("tests/test_till.py::test_count",)
    assert not result.is_proven
    assert "breaks none" not in result.evidence.why


async def test_tests_that_are_there_stay_and_a_new_file_may_be_sent_instead(shop: Shop) -> None:
    loses = (
        "<edit>\ntests/test_till.py\n<<<<<<< SEARCH\ndef test_total_of_nothing():\n"
        "    assert total([]) == 0\n=======\ndef test_total_adds():\n"
        "    assert total([1, 2]) == 3\n>>>>>>> REPLACE\n</edit>"
    )
    result, model = await rung(shop, loses, TEST_FILE)
    proof = result.evidence.reproduction
    assert (proof.rung, proof.path) == ("new file", "tests/test_total_subtracts.py")
    hint = model.conversations["reproduction"][2].text
    assert "test_total_of_nothing" in hint


async def test_an_extension_that_brings_another_file_is_told_to_make_it(shop: Shop) -> None:
    data = "tests/data.txt\n<<<<<<< SEARCH\n=======\n1 2\n>>>>>>> REPLACE\n"
    result, model = await rung(shop, EXTENSION.replace("<edit>\n", f"<edit>\n{data}"), EXTENSION)
    assert result.evidence.reproduction.rung == "extension"
    assert len(model.conversations["reproduction"]) > 2, "it is asked again"


async def test_where_no_test_of_the_model_holds_the_script_is_wrapped(shop: Shop) -> None:
    result, _ = await rung(shop, USELESS)
    assert result.evidence.reproduction.rung == "wrapped script"
    assert "SCRIPT" in result.evidence.reproduction.text
    assert result.evidence.title == "Add up"


async def test_a_spent_budget_leads_to_the_mechanical_rungs(shop: Shop) -> None:
    result, _ = await rung(shop, BudgetSpent(1.0, 1.0))
    assert result.evidence.reproduction.rung == "wrapped script"
    assert result.evidence.cut_short


async def test_without_a_runner_the_script_is_a_file_of_its_own(tmp_path: Path) -> None:
    # Neither runner starts, so no test is asked for: the same failure would come each time.
    broken = {"conftest.py": "raise SystemExit(3)\n", "unittest.py": "raise SystemExit(3)\n"}
    shop = await open_shop(tmp_path, {**FILES, **broken})
    result, model = await rung(shop, WORDS)
    proof = result.evidence.reproduction
    assert proof.rung == "script file"
    assert proof.path == "tests/reproduce_total_subtracts.py"
    assert proof.command == ("python", proof.path)
    assert sum(call == "reproduction" for call, _ in model.asked) == 1


async def test_a_failure_that_is_not_the_tests_own_ends_the_conversation(tmp_path: Path) -> None:
    # The runner starts, but not with this file: the same failure without and with the edit.
    guard = (
        "def pytest_collect_file(file_path):\n    if 'total_subtracts' in file_path.name:\n"
        "        if 'probe' not in file_path.read_text():\n"
        "            raise RuntimeError('the database is away')\n"
    )
    files = {**FILES, "conftest.py": guard, "tests/test_till.py": "def test_x():\n    pass\n"}
    shop = await open_shop(tmp_path, files)
    result, model = await rung(shop, TEST_FILE)
    assert sum(call == "reproduction" for call, _ in model.asked) == 1
    assert result.evidence.reproduction.rung == "script file"


async def test_without_any_place_the_edit_is_unproven_or_not_proposed(shop: Shop) -> None:
    nowhere = ("**/test_*.py", "**/reproduce_*.py", "test_*.py", "reproduce_*.py")
    result, _ = await rung(shop, WORDS, never_touch=nowhere)
    proof = result.evidence.reproduction
    assert (proof.rung, proof.diff) == ("none", "")
    assert (proof.before.exit_code, proof.after.exit_code) == (2, 0)
    assert not result.is_shown
    assert "never_touch" in result.evidence.unproven


async def test_a_repository_may_want_nothing_unproven(shop: Shop) -> None:
    nowhere = ("**/test_*.py", "**/reproduce_*.py", "test_*.py", "reproduce_*.py")
    no, _ = await end(shop, WORDS, never_touch=nowhere, unproven="never")
    assert isinstance(no, NoFix)
    assert no.reason == "reproduction not confirmed"
    assert no.edits is not None
    assert "result += price" in no.edits.best.patch.diff
    assert no.edits.confidence is not None


TEXTS = texts_of(__file__)
RUNTESTS: str = TEXTS["RUNTESTS"]
TILL_CASE = """\
import unittest
from shop.till import count, total

class TillTest(unittest.TestCase):
    def test_count(self):
        self.assertEqual(count([1]), 1)
"""


async def test_a_repositorys_own_script_runs_the_extended_file_by_its_label(tmp_path: Path) -> None:
    code = {path: text for path, text in FILES.items() if not path.startswith("tests/")}
    tests = {"tests/runtests.py": RUNTESTS, "tests/till/__init__.py": ""}
    shop = await open_shop(tmp_path, {**code, **tests, "tests/till/tests.py": TILL_CASE})
    extension = (
        "<edit>\ntests/till/tests.py\n<<<<<<< SEARCH\n    def test_count(self):\n=======\n"
        "    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n\n"
        f"    def test_count(self):\n>>>>>>> REPLACE\n</edit>\n{WORDS}"
    )
    result, model = await rung(shop, extension)
    proof = result.evidence.reproduction
    assert (proof.rung, proof.path) == ("extension", "tests/till/tests.py")
    assert proof.command[:2] == ("python", "tests/runtests.py")
    assert proof.command[-1] == "till.tests"
    assert "AssertionError: -3 != 3" in proof.before.output
    assert " ".join(proof.command) in model.conversations["reproduction"][0].text


async def test_the_description_follows_the_commits_and_names_no_number_that_nobody_gave(
    shop: Shop,
) -> None:
    words = WORDS.replace("</cause>", " See GH-8590.</cause>")
    words = words.replace("</change>", " https://github.com/acme/shop/issues/8590</change>")
    both = GOOD_EDIT.removesuffix("</edit>") + OWN_TEST
    result, model = await rung(shop, words, edit=both)
    assert "8590" not in result.evidence.cause + result.evidence.change
    (latest, *_) = await read_history(shop.codebase)
    assert f"<output>\n{latest.subject}" in model.conversations["reproduction"][0].text


async def test_an_entry_of_the_changelog_that_needs_an_unknown_number_is_told_of(
    tmp_path: Path,
) -> None:
    shop = await open_shop(tmp_path, {**FILES, "changelog/12.bugfix.rst": "It subtracts.\n"})
    result, model = await rung(shop, EXTENSION)
    context = await load_context(DirStore(shop.folder / "store"))
    assert context == result.evidence.context, "a report lists all that the models were shown"
    assert "Write no entry" in model.conversations["editing/0"][0].text
    assert result.evidence.context.numbered_entries == "changelog"
