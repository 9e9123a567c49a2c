import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.codebase.text import Places, Wildcards
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.registry import detect_conventions
from sandbox.frozen import replace
from tests.support.data.repositories import make_codebase

PYTEST = "import pytest\n\ndef test_a():\n    assert True\n"
UNITTEST = "import unittest\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n"


async def found(tmp_path: Path, files: Mapping[str, str]) -> Conventions:
    return await detect_conventions(await make_codebase(tmp_path / "r.git", files))


CASE = {"test_a.py": UNITTEST}
RUNNERS: dict[str, tuple[dict[str, str], str]] = {
    "pytest by import": ({"tests/test_a.py": PYTEST}, "pytest"),
    "pytest by conftest": ({**CASE, "conftest.py": ""}, "pytest"),
    "pytest by pyproject": ({**CASE, "pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest"),
    "pytest by setup.cfg": ({**CASE, "setup.cfg": "[tool:pytest]\n"}, "pytest"),
    "pytest by tox.ini": ({**CASE, "tox.ini": "[pytest]\n"}, "pytest"),
    "pytest by functions": ({"test_a.py": "def test_a():\n    pass\n"}, "pytest"),
    "unittest": ({**CASE, "tox.ini": "[tox]\n"}, "unittest"),
    "requires pytest": ({**CASE, "requirements.txt": "pytest\nsphinx\n"}, "pytest"),
    "requires pytest in a folder": ({**CASE, "requirements/test.in": "pytest\n"}, "pytest"),
    "requires pytest elsewhere": ({**CASE, "docs/requirements.txt": "pytest\n"}, "unittest"),
    "requires a plugin alone": ({**CASE, "requirements.txt": "pytest-cov\n"}, "unittest"),
    "broken pyproject": ({**CASE, "pyproject.toml": "[[["}, "unittest"),
    "odd pyproject": ({**CASE, "pyproject.toml": "tool = 1"}, "unittest"),
    "no tests": ({"a.py": "x = 1\n"}, "unittest"),
}


@pytest.mark.parametrize("case", RUNNERS)
async def test_the_runner_is_found(case: str, tmp_path: Path) -> None:
    files, runner = RUNNERS[case]
    assert (await found(tmp_path, files)).runner == runner


async def test_the_fullest_test_folder_its_names_and_an_example_are_found(tmp_path: Path) -> None:
    conventions = await found(
        tmp_path,
        {
            "pkg/a.py": "x = 1\n",
            "pkg/tests/a_test.py": PYTEST,
            "pkg/tests/b_test.py": PYTEST + "# more\n" * 100,
            "pkg/tests/__init__.py": "",
            "test_other.py": PYTEST,
        },
    )
    assert (conventions.folder, conventions.suffix, conventions.tests) == ("pkg/tests", True, 3)
    assert conventions.packaged
    assert conventions.example == "pkg/tests/b_test.py"
    assert conventions.fresh_path("It breaks: x > 1!", []) == "pkg/tests/it_breaks_x_1_test.py"


async def test_files_whose_names_end_in_tests_are_found(tmp_path: Path) -> None:
    """As mkdocs's; unittest alone would not look into them."""
    files = {
        "pkg/__init__.py": "",
        "pkg/tests/__init__.py": "",
        "pkg/tests/build_tests.py": UNITTEST,
    }
    conventions = await found(tmp_path, files)
    assert (conventions.tests, conventions.folder) == (1, "pkg/tests")
    command = " ".join(conventions.suite_command() or ())
    assert command == "python -m unittest discover -v -s pkg -t . -p *test*.py"


async def test_without_tests_a_new_file_goes_to_tests(tmp_path: Path) -> None:
    conventions = await found(tmp_path, {"a.py": "x = 1\n"})
    assert (conventions.folder, conventions.example) == ("tests", None)
    assert conventions.suite_command() is None
    assert conventions.command_for("tests/test_x.py")[:3] == ("python", "-m", "unittest")


TITLES = {
    "Crash on `x`": "tests/test_crash_on_x.py",
    "../../etc/passwd": "tests/test_etc_passwd.py",
    "日本語": "tests/test_issue.py",
    "": "tests/test_issue.py",
    "a" * 200: f"tests/test_{'a' * 48}.py",
    "one two three four five six seven": "tests/test_one_two_three_four_five_six.py",
}


@pytest.mark.parametrize("title", TITLES)
async def test_a_new_file_is_named_after_the_issue(title: str, tmp_path: Path) -> None:
    conventions = await found(tmp_path, {"tests/test_a.py": PYTEST})
    assert conventions.fresh_path(title, []) == TITLES[title]


async def test_no_existing_file_is_ever_overwritten(tmp_path: Path) -> None:
    conventions = await found(tmp_path, {"tests/test_a.py": PYTEST})
    taken = ["tests/test_a.py", "tests/TEST_A_2.py"]
    assert conventions.fresh_path("A", taken) == "tests/test_a_3.py"


async def test_the_whole_suite_is_run_by_the_repositorys_runner(tmp_path: Path) -> None:
    base = Conventions(
        runner="pytest", folder="tests", suffix=False, tests=1, packaged=False, example=None
    )
    assert base.suite_command() == ("python", "-m", "pytest")
    plain = replace(base, runner="unittest")
    assert (plain.suite_command() or ())[-2:] == ("-s", "tests")
    packaged = replace(plain, packaged=True, folder="tests/unit")
    assert (packaged.suite_command() or ())[-4:] == ("-s", "tests", "-t", ".")
    root = replace(plain, folder="")
    assert root.suite_command() == ("python", "-m", "unittest", "discover", "-v")


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/a.py", True), ("a/test/b.txt", True), ("test_a.py", True), ("a_test.py", True),
        ("pkg/tests.py", True), ("conftest.py", True), ("pkg/a_test.go", True),
        ("src/ATest.java", True), ("Acme/ThingTests.cs", True), ("src/a.test.ts", True),
        ("src/__tests__/a.js", True), ("spec/a_spec.rb", True), ("src/Latest.java", False),
        ("pkg/testing.py", False), ("contest.py", False), ("pkg/latest.py", False),
    ],
)  # fmt: skip
def test_tests_are_known_by_name_or_folder(path: str, test: bool) -> None:
    assert is_test(path) is test


async def test_a_file_named_like_the_test_folder_is_no_folder(tmp_path: Path) -> None:
    one = await found(tmp_path / "one", {"a.py": "x = 1\n", "tests": "run me"})
    assert one.folder == "test"
    both = await found(tmp_path / "both", {"a.py": "x = 1\n", "tests": "run me", "test": "me too"})
    assert both.fresh_path("total", []) == "test_total.py"


async def test_only_options_that_hide_results_are_overridden_each_by_its_name(
    tmp_path: Path,
) -> None:
    settings = (
        "[tool.pytest.ini_options]\naddopts = [\n  '-p', 'own', '--cov=x',\n  '-n', 'auto', '-x',\n"
        "  '-q',\n]\ntestpaths = '-n 3'\n"
    )
    one = await found(tmp_path, {"tests/test_a.py": PYTEST, "pyproject.toml": settings})
    assert one.command_for("t.py") == (
        *("python", "-m", "pytest", "--no-cov", "-n", "0", "--maxfail=0", "-v", "-v", "t.py"),
    )
    plain = await found(tmp_path / "plain", {"tests/test_a.py": PYTEST})
    assert plain.command_for("t.py") == ("python", "-m", "pytest", "t.py")


CHECKS = {"checks/check_till.py": "def test_a():\n    pass\n", "till.py": "x = 1\n"}
PYTEST_9 = 'testpaths = ["checks"]\npython_files = ["check_*.py"]\n'


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("pyproject.toml", "[tool.pytest]"),
        ("pyproject.toml", "[tool.pytest.ini_options]"),
        ("pytest.toml", "[pytest]"),
        (".pytest.toml", "[pytest]"),
    ],
)
async def test_a_new_test_lies_where_the_repositorys_own_command_collects_it(
    tmp_path: Path, path: str, head: str
) -> None:
    files = {**CHECKS, path: f"{head}\n{PYTEST_9}"}
    found = await detect_conventions(await make_codebase(tmp_path / "repo.git", files))
    assert (found.runner, found.tests, found.folder) == ("pytest", 1, "checks")
    assert found.fresh_path("An oven", ()) == "checks/check_an_oven.py"


async def test_patterns_meet_paths_beside_the_event_loop_and_once_for_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, asked = threading.current_thread(), list[str]()

    def match(self: Wildcards, name: str) -> bool:
        assert threading.current_thread() is not here
        asked.append(name)
        return whole(self, name)

    whole = Wildcards.match
    monkeypatch.setattr(Wildcards, "match", match)
    settings = "[pytest]\npython_files = check_*.py other/*.py\ntestpaths = che*s\n"
    codebase = await make_codebase(tmp_path / "r.git", CHECKS | {"pytest.ini": settings})
    one = await detect_conventions(codebase)
    matched = asked.count("/checks/check_till.py") + asked.count("check_till.py")
    assert (one.folder, one.tests, matched) == ("checks", 1, 1)
    assert await detect_conventions(codebase) == one
    assert asked.count("check_till.py") == 1


def test_places_are_whole_folders_with_wildcards() -> None:
    places = Places(["./src/*/tests/", "docs/a.py", "deep/**/t"])
    inside = ["src/a/tests/b/c.py", "docs/a.py", "deep/x/t/a.py"]
    outside = ["src/tests/a.py", "src/a/tests_b/c.py", "docs/a.pyc", "src/a/b/tests/c.py"]
    assert [path for path in inside + outside if places.hold(path)] == inside
    assert Places(["."]).hold("any/where.py")
    assert not Places([]).hold("any.py")
