"""Which Python a repository asks for."""

# ruff: noqa: E501

import pytest

from pipeline.languages.python.interpreter import find_python_requirement

PYPROJECT = "pyproject.toml"


@pytest.mark.parametrize(
    ("files", "accepted", "wanted", "where"),
    [
        (
            {PYPROJECT: "[project]\nrequires-python = '>=3.9,<3.12'\n"},
            (11, 10, 9), (), "requires-python in pyproject.toml",
        ),
        (
            {PYPROJECT: "[tool.poetry.dependencies]\npython = '~3.8'\n"},
            (8,), (), "tool.poetry.dependencies in pyproject.toml",
        ),
        (
            {PYPROJECT: "[tool.poetry.dependencies]\npython = '^3.18'\n"},
            (18, 19, 20), (), "tool.poetry.dependencies in pyproject.toml",
        ),
        ({"setup.cfg": "[options]\npython_requires = ==3.7.*\n"}, (7,), (), "python_requires in setup.cfg"),
        ({"setup.py": "setup(python_requires='<3.8')"}, (7, 6), (), "python_requires in setup.py"),
        ({"PKG-INFO": "Requires-Python: <3, >=2.7\n"}, (), (), "Requires-Python in PKG-INFO"),
        (
            {PYPROJECT: "[project]\nrequires-python = '<3.11'\n", ".python-version": "3.9.18\n"},
            (10, 9, 8, 7, 6), (9,), "requires-python in pyproject.toml",
        ),
        (
            {"setup.py": "['Programming Language :: Python :: 3.6', 'Programming Language :: Python :: 3.7']"},
            None, (7, 6), "classifiers in setup.py",
        ),
        ({"tox.ini": "[tox]\nenvlist = py{38,39}-{a,b}, lint\n"}, None, (9, 8), "tox's environments"),
        ({"tox.ini": "[tox]\nenv_list = py3{9-12}-tests, pypy3\n"}, None, (12, 11, 10, 9), "tox's environments"),
        ({"tox.ini": "[tox]\nenv_list = py{3.13, 3.12}, x3.9\n"}, None, (13, 12), "tox's environments"),
        (
            {PYPROJECT: "[tool.tox]\nenv_list = ['py3.14t', '3.13', 'pypy3.11', 'py3.12-x']\n"},
            None, (13, 12), "tox's environments",
        ),
    ],
)  # fmt: skip
def test_it_is_read_from_the_files(
    files: dict[str, str], accepted: tuple[int, ...] | None, wanted: tuple[int, ...], where: str
) -> None:
    asked = find_python_requirement(files)
    assert asked is not None
    assert (asked.wanted, asked.where) == (wanted, where)
    assert accepted is None or asked.accepted == accepted


@pytest.mark.parametrize(
    "files",
    [
        {},
        {PYPROJECT: "[project]\nrequires-python = 'what; rm -rf /'\n"},
        {".python-version": "pypy"},
    ],
)
def test_nothing_that_can_be_understood_asks_for_nothing(files: dict[str, str]) -> None:
    assert find_python_requirement(files) is None


def test_the_maintainers_word_goes_before_all() -> None:
    asked = find_python_requirement(
        {PYPROJECT: "[project]\nrequires-python = '>=3.12'\n"}, configured="3.9"
    )
    assert asked is not None
    assert (asked.accepted, asked.where) == ((9,), "python in its configuration file")


def test_its_words_are_quoted_in_the_step() -> None:
    asked = find_python_requirement({PYPROJECT: "[project]\nrequires-python = ' >=3.9 '\n"})
    assert asked is not None
    assert asked.to_step().endswith("--asked '>=3.9' --where 'requires-python in pyproject.toml'")
