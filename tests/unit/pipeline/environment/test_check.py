"""What is looked at in an environment: packages, a sample of the tests, and how they are graded."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.codebase.commit import File
from pipeline.data.options import Options
from pipeline.environment.check import HealthCheck, choose_sample
from pipeline.environment.ground import survey
from pipeline.environment.health import Grade, Health, ImportedPackage
from pipeline.environment.setup_machine import parse_commands
from pipeline.languages.python.packages import find_packages, parse_collection
from pipeline.languages.registry import read_test_files
from pipeline.replies import Malformed
from pipeline.store import DirStore
from tests.support.data.repositories import make_codebase
from tests.support.fakes import SubprocessSandbox
from tests.support.planned_engine import check_health, tree_of
from tests.support.texts import texts_of


@pytest.mark.parametrize(
    ("paths", "manifest", "names"),
    [
        (["src/shop/__init__.py", "tools/__init__.py"], "", ("shop",)),
        (["shop/__init__.py", "tests/__init__.py", "shop/a/__init__.py"], "", ("shop",)),
        (["shop_ext/__init__.py", "shop/__init__.py"], "", ("shop", "shop_ext")),
        (["six.py", "setup.py"], "py_modules=['six', 'missing']", ("six",)),
        (["src/a-b/__init__.py", "import/__init__.py", "x.py"], "", ()),
        ([], "", ()),
    ],
)
def test_packages_are_found_by_the_tree(
    paths: list[str], manifest: str, names: tuple[str, ...]
) -> None:
    assert find_packages(paths, {"setup.py": manifest}) == names


async def test_a_sample_is_spread_over_folders(tmp_path: Path) -> None:
    paths = [f"tests/unit/test_{n:02}.py" for n in range(30)]
    paths += [f"tests/api/test_{n}.py" for n in range(3)]
    paths += ["tests/integration/test_db.py", "tests/data.py", "shop/till.py"]
    ground = await survey(await make_codebase(tmp_path, dict.fromkeys(paths, "x = 1\n")))
    files = [File(path, "100644", 500, path) for path in ground.tests]
    assert len(files) == 34
    sample = choose_sample(files, 6)
    assert [path.split("/")[1] for path in sample] == ["api"] * 3 + ["unit"] * 3
    assert choose_sample(file for file in files if "db" in file.path) == (
        "tests/integration/test_db.py",
    )


def health(**fields: object) -> Health:
    known: dict[str, object] = {
        "python": "3.11.2",
        "packages": (ImportedPackage(name="shop"),),
        "command": ("pytest",),
        "of_files": 3,
        "files": 3,
    }
    return Health.model_validate({**known, **fields})


BAD = (ImportedPackage(name="shop", error="ImportError: x"),)


@pytest.mark.parametrize(
    ("seen", "grade"),
    [
        (health(passed=5), Grade.HEALTHY),
        (health(passed=95, failed=5), Grade.USABLE),
        (health(passed=1, by_name=False), Grade.USABLE),
        (health(passed=1, by_name=False, of_files=1), Grade.HEALTHY),
        (health(passed=9, projects=(1, 3)), Grade.HEALTHY),
        (health(passed=95, problem="It ended early."), Grade.USABLE),
        (health(passed=110, failed=4), Grade.USABLE),
        (health(passed=11, failed=53), Grade.BROKEN),
        (health(passed=80, failed=20, errors={"network": 20}), Grade.USABLE),
        (health(passed=2, failed=1, errors={"assertion": 1}), Grade.USABLE),
        (health(failed=1, errors={"assertion": 1}), Grade.USABLE),
        (health(passed=4, failed=16, errors={"assertion": 16}), Grade.BROKEN),
        (health(), Grade.BROKEN),
        (health(passed=5, packages=BAD), Grade.USABLE),
        (health(packages=BAD), Grade.BROKEN),
        (health(command=(), of_files=0, files=0), Grade.UNTESTED),
        (health(command=(), of_files=0, packages=BAD), Grade.BROKEN),
        (Health(), Grade.BROKEN),
    ],
)
def test_the_rule(seen: Health, grade: Grade) -> None:
    assert seen.grade is grade


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (health(passed=5), "5 of 5 tests pass."),
        (health(passed=5, collected=9), "5 of 5 tests (a sample of 9) pass."),
        (
            health(passed=5, offline=21, collected=26),
            "5 of 5 tests pass. 21 more need a network or a display, which the sandbox lacks.",
        ),
        (
            health(passed=77, files=10, of_files=764),
            "77 of 77 tests (a sample: 10 of 764 test files) pass.",
        ),
        (health(passed=9, files=0, of_files=3), "9 of 9 tests pass."),
        (
            health(passed=9, projects=(1, 3), reach=2, silent="`web` (1)"),
            "9 of 9 tests pass. There are results from 1 of 3 projects with tests. The command "
            "has results from 2 of 3 test files; none from: `web` (1).",
        ),
        (health(passed=1, by_name=False), "The command passes, and names no single tests."),
        (health(passed=1, failed=2, errors={"other": 2}), "1 of 3 tests passes, 2 fail."),
        (
            health(
                passed=1,
                failed=4,
                errors={"other": 2, "network": 1},
                commonest="TypeError: x.",
                alike=2,
            ),
            "1 of 5 tests passes, 4 fail (network 1). The most frequent error: TypeError: x.",
        ),
        (
            health(passed=1, failed=2, commonest="TypeError: x", alike=1),
            "1 of 3 tests passes, 2 fail. One of the errors: TypeError: x.",
        ),
        (
            health(passed=1, failed=1, commonest="TypeError: x", alike=1),
            "1 of 2 tests passes, 1 fails. The error: TypeError: x.",
        ),
    ],
)
def test_a_sentence_says_how_many_tests_pass_and_why_others_fail(seen: Health, said: str) -> None:
    assert seen.sentences()[1] == said


TEXTS = texts_of(__file__)
COLLECTED: dict[str, str] = TEXTS["COLLECTED"]


@pytest.mark.parametrize("version", COLLECTED)
def test_what_pytest_collects_is_read_in_the_form_of_any_version(version: str) -> None:
    paths = ["tests/test_a.py", "tests/test_b.py", "tests/examples/test_a.py", "shop/test_b.py"]
    found = parse_collection(COLLECTED[version], paths)
    assert (found.tests, found.files) == (2, {"tests/test_a.py", "tests/test_b.py"})


def test_a_package_without_the_folders_above_it_is_found() -> None:
    """pytest 6 shows the last folder of a package alone (xarray's tests)."""
    printed = "collected 2 items\n<Package tests>\n  <Module test_a.py>\n    <Function test_x>\n"
    paths = ["shop/tests/test_a.py", "shop/test_a.py"]
    assert parse_collection(printed, paths).files == {"shop/tests/test_a.py"}


async def test_files_that_the_repository_leaves_out_are_no_sample(tmp_path: Path) -> None:
    files = {f"tests/test_{n}.py": "def test_a():\n    pass\n" for n in range(3)}
    files |= {"tests/data/test_bad.py": "def test_bad():\n    assert False\n", "shop.py": ""}
    files["pytest.ini"] = "[pytest]\nnorecursedirs = tests/data\n"
    found = await check_health(tmp_path, files)
    assert (found.passed, found.failed, found.collected) == (3, 0, 3)


async def test_few_tests_that_all_pass_are_not_listed_first(tmp_path: Path) -> None:
    files = {f"tests/test_{n}.py": "def test_a():\n    pass\n" for n in range(3)}
    files["shop.py"] = ""
    for failing, runs in ((False, 2), (True, 3)):
        if failing:
            files["tests/test_bad.py"] = "def test_bad():\n    assert False\n"
        sandbox = SubprocessSandbox(tree_of(files))
        codebase = await make_codebase(tmp_path / f"{failing}.git", files)
        found = await HealthCheck(codebase, Options()).check(
            sandbox, DirStore(tmp_path / f"{runs}")
        )
        assert (found.passed, found.failed, found.collected) == (3, failing, 3 + failing)
        assert len(sandbox.runs) == runs


async def test_a_few_leftovers_do_not_stand_for_tests_of_other_names(tmp_path: Path) -> None:
    files = {"tests/test_old.py": "def test_a():\n    pass\n", "shop.py": ""}
    files["tests/check_till.py"] = "def test_b():\n    assert False\n"
    files["pytest.ini"] = "[pytest]\npython_files = check_*.py\n"
    found = await check_health(tmp_path, files)
    assert (found.passed, found.failed, found.collected) == (0, 1, 1)


async def test_tests_under_names_of_the_repositorys_own_are_found(tmp_path: Path) -> None:
    """As invoke's: no file and no function is called a test."""
    settings = "[pytest]\ntestpaths = tests\npython_files = *\npython_functions = *_works\n"
    files = {"pytest.ini": settings, "tests/conftest.py": "", "shop.py": ""}
    files["tests/till.py"] = "def counting_works():\n    pass\n"
    codebase = await make_codebase(tmp_path / "repo.git", files)
    check = HealthCheck(codebase, Options())
    found = await check.check(SubprocessSandbox(tree_of(files)), DirStore(tmp_path / "image"))
    assert (found.passed, found.failed, found.collected) == (1, 0, 1)
    assert list(await read_test_files(codebase)) == ["tests/till.py"]


@pytest.mark.parametrize(
    "files",
    [
        {"composer.json": "{}", "src/Till.php": "<?php class Till {}\n"},
        {"Rakefile": "task :default\n", "lib/till.rb": "class Till; end\n"},
        {"pom.xml": "<project/>", "src/main/java/Till.java": "class Till {}\n"},
    ],
)
async def test_a_repository_without_tests_is_no_broken_environment(
    tmp_path: Path, files: Mapping[str, str]
) -> None:
    """Seen: "Correct its `setup`", since PHPUnit printed how it is used."""
    found = await check_health(tmp_path, files)
    assert (found.grade, found.command) == (Grade.UNTESTED, ())
    assert found.works.startswith("is installed")
    assert found.summary().startswith("No tests were found")


LABELS: str = TEXTS["LABELS"]


async def test_a_file_that_stops_the_runner_hides_no_other(tmp_path: Path) -> None:
    """Django's own runner ends at once if it is asked for what needs another database."""
    case = "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n"
    files = {f"tests/{name}/tests.py": case for name in ("forms", "gis_tests", "urls", "views")}
    files |= {f"{path.rpartition('/')[0]}/__init__.py": "" for path in files}
    files |= {"tests/runtests.py": LABELS, "shop.py": ""}
    found = await check_health(tmp_path, files)
    assert (found.passed, found.failed, found.files, found.problem) == (3, 0, 3, "")


async def test_the_whole_is_counted_where_a_sample_runs(tmp_path: Path) -> None:
    files = {f"tests/test_{n}.py": "def test_a():\n    pass\n" for n in range(14)}
    files |= {"shop/__init__.py": "import os\nos.write(1, b'printed')\n", "conftest.py": ""}
    sandbox = SubprocessSandbox(tree_of(files))
    check = HealthCheck(await make_codebase(tmp_path / "repo.git", files), Options())
    store = DirStore(tmp_path / "image")
    found = await check.check(sandbox, store)
    assert (found.files, found.of_files, found.passed, found.collected) == (10, 14, 10, 14)
    assert found.summary() == "shop can be imported. 10 of 10 tests (a sample of 14) pass."
    ran = len(sandbox.runs)
    assert await check.check(sandbox, store) == found
    assert len(sandbox.runs) == ran, "what is known of an image is not looked at again"


@pytest.mark.parametrize(
    ("body", "commands"),
    [
        ("pip install \\\n  a\n\n# why\npytest", ("pip install a", "pytest")),
        ("", None),
        ("# nothing", None),
        ("echo \x1b[2J", None),
        ("true\n" * 41, None),
        ("x" * 2001, None),
    ],
)
def test_commands_are_read_line_by_line(body: str, commands: tuple[str, ...] | None) -> None:
    found = parse_commands(body)
    assert isinstance(found, Malformed) if commands is None else found == commands
