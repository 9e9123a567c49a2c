from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.regression.near_tests import (
    MOST_FILES,
    NearFiles,
    Nearness,
    choose_files,
    enclosing_names,
    rank_files,
)
from tests.support.data.diffs import diff_of
from tests.support.data.repositories import make_codebase

DIFF = diff_of(
    "class Till:\n    def settle(self):\n        return 1\n",
    "class Till:\n    def settle(self):\n        return 2\n",
    "src/shop/till.py",
)
FILES = {
    "src/shop/__init__.py": "",
    "src/shop/till.py": "class Till:\n    def settle(self):\n        return 1\n",
    "src/shop/sales.py": "from shop import till\n",
    "src/shop/names.py": "x = 1\n",
    "tests/test_till.py": "from shop import till\n\ndef test_a(): pass\n",
    "tests/test_sales.py": "from shop import sales\n\ndef test_a(): pass\n",
    "tests/test_words.py": "def test_a(): settle()\n",
    "tests/test_names.py": "from shop.names import x\n\ndef test_a(): pass\n",
}


async def test_names_imports_and_shared_words_say_what_is_near(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "repo.git", FILES)
    found = await NearFiles(codebase).find(DIFF)
    assert found == ["tests/test_till.py", "tests/test_words.py", "tests/test_sales.py"]


async def test_what_changed_together_is_near(tmp_path: Path) -> None:
    work = tmp_path / "work"
    await git(None, "init", "-q", str(work))
    person = ("-c", "user.name=a", "-c", "user.email=a@b")
    for number in range(2):
        for path in ("src/a.py", "tests/test_far.py") if number else ("tests/test_x.py", "o.py"):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(f"def test_a(): return {number}\n")
        await git(None, "add", "-A", cwd=work)
        await git(None, *person, "commit", "-qm", "x", cwd=work)
    head = (await git(None, "rev-parse", "HEAD", cwd=work)).decode().strip()
    codebase = await Codebase.open(work / ".git", head)
    diff = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-def test_a(): return 1\n+x = 1\n"
    assert (await NearFiles(codebase).find(diff))[0] == "tests/test_far.py"


def test_a_changed_test_comes_first_and_what_nothing_speaks_for_is_left_out() -> None:
    texts = {f"tests/test_{name}.py": "x" for name in "abc"}
    evidence = Nearness(texts, distances={"tests/test_b.py": 1})
    assert rank_files(["a.py", "tests/test_c.py"], evidence) == [
        "tests/test_c.py",
        "tests/test_a.py",
        "tests/test_b.py",
    ]
    assert rank_files(["docs/till.md"], Nearness(texts)) == []


def test_a_word_of_many_test_files_says_less_than_one_of_few() -> None:
    common = {f"tests/db_functions/test_{name}.py": "" for name in ("abs", "cast", "now")}
    evidence = Nearness({**common, "tests/queries/test_sql_text.py": ""})
    first, *_ = rank_files(["shop/db/models/sql/compiler.py"], evidence)
    assert first == "tests/queries/test_sql_text.py"


def test_only_so_many_are_taken_and_the_nearest_always() -> None:
    many = {f"tests/test_{n:02}.py": "x" * 10 for n in range(40)}
    assert len(choose_files(sorted(many), many)) == MOST_FILES
    long = {"a": "x" * 900_000, "b": "x"}
    assert choose_files(["a", "b"], long) == ["a"]


@pytest.mark.parametrize(("place", "names"), [(3, ["settle", "Till"]), (1, ["Till"]), (0, [])])
def test_a_line_is_known_by_its_function_and_class(place: int, names: list[str]) -> None:
    assert enclosing_names(FILES["src/shop/till.py"].split("\n"), [place]) == {place: names}


def test_many_lines_are_known_at_once() -> None:
    methods = "    def one(self):\n        x\n    def two(self):\n        x\n"
    text = f"class Many:\n{methods}def three():\n    x\n"
    lines = [*text.split("\n"), *(f"def n{n:05}(): pass" for n in range(20_000))]
    names = enclosing_names(lines, range(len(lines), 0, -1))
    assert [names[at] for at in (3, 5, 7)] == [["one", "Many"], ["two", "Many"], ["three"]]
    assert names[len(lines)] == ["n19999"]
