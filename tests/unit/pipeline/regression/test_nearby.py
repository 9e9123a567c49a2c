from __future__ import annotations

from pipeline.regression.nearby import MOST_FILES, nearby_files

TESTS = {
    "tests/test_till.py": "from shop import till\n",
    "tests/test_sales.py": "import shop.till as t\n",
    "tests/test_loose.py": "from shop import names, till\n",
    "tests/test_words.py": "def test_a():\n    'the till is open'\n",
    "tests/test_names.py": "from shop.names import polite\n",
}


def test_a_test_named_after_the_module_comes_before_one_that_imports_it() -> None:
    found = nearby_files(["src/shop/till.py"], TESTS)
    assert found == ["tests/test_till.py", "tests/test_sales.py", "tests/test_loose.py"]


def test_a_package_is_looked_for_by_its_own_name() -> None:
    assert "tests/test_names.py" in nearby_files(["shop/__init__.py"], TESTS)


def test_a_changed_test_comes_first() -> None:
    assert nearby_files(["shop/names.py", "tests/test_words.py"], TESTS)[0] == "tests/test_words.py"


def test_files_that_are_no_modules_have_no_tests() -> None:
    assert nearby_files(["docs/till.md", "__init__.py"], TESTS) == []


def test_only_so_many_are_taken() -> None:
    many = {f"tests/test_{n}.py": "import till\n" for n in range(20)}
    assert len(nearby_files(["till.py"], many)) == MOST_FILES
