"""Which command runs a repository's own tests."""

from pathlib import Path

import pytest

from pipeline.languages.python.variables import find_variables
from pipeline.languages.test_command import TestCommand, needs_shell
from pipeline.regression.command import find_commands
from tests.support.data.repositories import make_codebase

TESTS = {"tests/test_a.py": "def test_a():\n    pass\n", "conftest.py": ""}
TOX = "[tox]\nenvlist = py\n\n[testenv]\ndeps = x\ncommands =\n    flake8\n    {line}\n"


async def found(folder: Path, files: dict[str, str], *configured: str) -> list[TestCommand]:
    codebase = await make_codebase(folder / "repo.git", files)
    return list(await find_commands(codebase, configured))


async def test_the_configured_command_is_the_only_one(tmp_path: Path) -> None:
    files = {**TESTS, "tox.ini": TOX.format(line="pytest")}
    commands = await found(tmp_path, files, "pytest", "-q")
    assert [(c.argv, c.kind, c.source) for c in commands] == [
        (("pytest", "-q"), "pytest", "configuration")
    ]


TOX_LINES: dict[str, str] = {
    "pytest {posargs:tests -q}": "python -m pytest tests -q",
    "{envpython} -m pytest {toxinidir}/tests": "python -m pytest ./tests",
    "coverage run -m pytest -x": "python -m pytest -x",
    "pytest --cov src --cov-report xml --cov-branch tests": "python -m pytest tests",
    "py311: python -m unittest discover": "python -m unittest discover",
}


@pytest.mark.parametrize("line", TOX_LINES)
async def test_what_tox_would_run_is_run_without_tox(tmp_path: Path, line: str) -> None:
    first = (await found(tmp_path, {**TESTS, "tox.ini": TOX.format(line=line)}))[0]
    assert first.source == "tox"
    assert " ".join(first.argv) == TOX_LINES[line]


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        ("tests", "cd tests && python -m pytest -q"),
        ("{toxinidir}/tests", "cd tests && python -m pytest -q"),
        ("{envtmpdir}", ""),
        ("elsewhere", ""),
    ],
)
async def test_tests_run_in_the_folder_that_tox_changes_to(
    tmp_path: Path, stated: str, line: str
) -> None:
    tox = TOX.format(line="pytest -q") + f"changedir = {stated}\n"
    first = (await found(tmp_path, {**TESTS, "tox.ini": tox}))[0]
    assert first.argv == (("sh", "-c", line) if line else ("python", "-m", "pytest", "-q"))


@pytest.mark.parametrize("line", ["pytest {env:X}", "make test", "pytest 'open", ""])
async def test_what_needs_tox_itself_is_left_alone(tmp_path: Path, line: str) -> None:
    commands = await found(tmp_path, {**TESTS, "tox.ini": TOX.format(line=line)})
    assert [command.source for command in commands] == ["detection"]


async def test_a_tox_file_that_cannot_be_read_is_no_trouble(tmp_path: Path) -> None:
    commands = await found(tmp_path, {**TESTS, "tox.ini": "[[[", "pyproject.toml": "= ="})
    assert [command.source for command in commands] == ["detection"]


async def test_what_nox_would_run_is_run_without_nox(tmp_path: Path) -> None:
    session = 'def t(session):\n    session.run("pip", "list")\n    session.run("pytest", "-q")\n'
    first = (await found(tmp_path, {**TESTS, "noxfile.py": session}))[0]
    assert (first.argv, first.source) == (("python", "-m", "pytest", "-q"), "nox")


DJANGO = """\
import argparse, django
parser = argparse.ArgumentParser()
parser.add_argument("modules", nargs="*")
parser.add_argument("-v", "--verbosity")
parser.add_argument("--parallel")
"""
SYMPY = """\
#!/usr/bin/env python
import sympy
parser.add_option("-v", "--verbose")
parser.add_option("-C", "--no-cache")
"""


async def test_django_has_a_runner_of_its_own_that_takes_labels(tmp_path: Path) -> None:
    tox = "[testenv]\nchangedir = tests\ncommands =\n    {envpython} runtests.py {posargs}\n"
    first = (await found(tmp_path, {**TESTS, "tests/runtests.py": DJANGO, "tox.ini": tox}))[0]
    assert first.kind == "labels"
    assert " ".join(first.argv_with_recorder(["tests/queries/test_q.py", "setup.py"])) == (
        "python -m capuchin_inside.main tests/runtests.py --verbosity 2 --parallel 1 queries.test_q"
    )
    assert first.covers(["tests/queries/test_q.py", "setup.py"]) == ("tests/queries/test_q.py",)


async def test_a_configured_script_takes_labels_too(tmp_path: Path) -> None:
    files = {"manage.py": "import django\n", "shop/tests.py": "x = 1\n"}
    (one,) = await found(tmp_path, files, "python", "manage.py", "test", "--settings=a")
    assert " ".join(one.argv_with_recorder(["shop/tests.py"])) == (
        "python -m capuchin_inside.main manage.py test --settings=a shop.tests"
    )


async def test_a_script_of_sympys_kind_takes_files(tmp_path: Path) -> None:
    files = {**TESTS, "bin/test": SYMPY, "README.rst": "Run ``bin/test``.\n"}
    first = (await found(tmp_path, files))[0]
    assert first.argv_with_recorder(["a/tests/test_b.py"]) == (
        *("python", "bin/test", "--verbose", "a/tests/test_b.py"),
    )
    newer = {**files, "bin/test": SYMPY + 'parser.add_argument("--use-sympy-runner")\n'}
    assert (await found(tmp_path / "newer", newer))[0].kind == "pytest"


async def test_pytest_is_asked_for_files_in_the_place_of_its_own(tmp_path: Path) -> None:
    (one,) = await found(tmp_path, TESTS, *["pytest", "-k", "x", "tests", "./tests/"])
    assert " ".join(one.argv_with_recorder(["tests/test_a.py"])) == (
        "pytest -p capuchin_inside.pytest_plugin -k x tests/test_a.py "
        "--maxfail=0 --continue-on-collection-errors"
    )


async def test_of_toxs_environments_the_one_with_the_fewest_factors_counts(tmp_path: Path) -> None:
    tox = (
        "[tox]\nenvlist = lint, py{27,38}-{lxml,}, py38-cov\n[testenv]\ncommands =\n"
        "    lxml: pytest -k lxml\n    py27: pytest old\n    !cov: pytest tests\n"
        "    cov: pytest --cov tests -v\n"
    )
    commands = await found(tmp_path, {**TESTS, "tox.ini": tox})
    assert [" ".join(c.argv) for c in commands if c.source == "tox"] == ["python -m pytest tests"]


async def test_unittest_finds_files_of_every_name(tmp_path: Path) -> None:
    case = "import unittest\n\nclass T(unittest.TestCase):\n    pass\n"
    files = {"a/x_test.py": case, "b/y_test.py": case}
    (one,) = await found(tmp_path, files)
    assert " ".join(one.argv) == "python -m unittest discover -v -p *_test.py"


async def test_without_tests_there_is_no_command(tmp_path: Path) -> None:
    assert await found(tmp_path, {"a.py": "x = 1\n"}) == []


STARTED: dict[str, str] = {
    "pytest -q": "pytest -p P -q O",
    ".venv/bin/pytest": ".venv/bin/pytest -p P O",
    "uv run -- pytest -q": "pytest -p P -q O",
    "coverage run -m pytest -- tests": "coverage run -m pytest -p P O -- tests",
    "python -m unittest": "python -m U",
    "python -m unittest discover -s tests": "python -m U discover -s tests",
    "make test": "make test",
    "tox -e pytest": "tox -e pytest",
    "./run pytest": "./run pytest",
}


@pytest.mark.parametrize("command", STARTED)
async def test_a_runner_is_started_with_the_recorder(tmp_path: Path, command: str) -> None:
    (one,) = await found(tmp_path, {}, *command.split())
    expected = STARTED[command].replace("P", "capuchin_inside.pytest_plugin")
    expected = expected.replace("U", "capuchin_inside.main unittest")
    expected = expected.replace("O", "--maxfail=0 --continue-on-collection-errors")
    assert " ".join(one.argv_with_recorder()) == expected


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pytest.ini", "[pytest]\ntestpaths = ./tests/ more/*\n"),
        ("tox.ini", "[pytest]\ntestpaths =\n    tests\n    more/*\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = tests more/*\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["tests", "more/*"]\n'),
    ],
)
async def test_what_pytest_collects_by_itself_is_known(
    tmp_path: Path, path: str, text: str
) -> None:
    first = (await found(tmp_path, {**TESTS, path: text}))[0]
    assert first.testpaths == ("tests", "more/*")
    asked = ("examples/test_b.py", "tests/deep/test_a.py", "more/a/test_c.py", "tests2/test_d.py")
    assert first.collects(asked) == ("tests/deep/test_a.py", "more/a/test_c.py")
    assert first.collects(asked[:1]) == asked[:1]


async def test_folders_that_pytest_does_not_enter_hold_no_near_tests(tmp_path: Path) -> None:
    text = "[pytest]\ntestpaths = tests\nnorecursedirs = tests/examples .* build\n"
    first = (await found(tmp_path, {**TESTS, "pytest.ini": text}))[0]
    asked = (
        "tests/examples/deep/test_a.py",
        "tests/test_b.py",
        "tests/my_examples/test_c.py",
        "tests/build/test_d.py",
        "tests/.hidden/test_e.py",
    )
    assert first.collects(asked) == ("tests/test_b.py", "tests/my_examples/test_c.py")


async def test_the_places_of_a_command_are_what_it_collects(tmp_path: Path) -> None:
    files = {**TESTS, "pytest.ini": "[pytest]\ntestpaths = more\n"}
    (one,) = await found(tmp_path, files, "pytest", "tests/")
    assert one.collects(("more/test_a.py", "tests/test_b.py")) == ("tests/test_b.py",)


SHELL_LINES = {
    "KILN=hot pytest": "KILN=hot pytest",
    "cd backend && uv run --group test pytest -q": "cd backend && pytest -q",
    "pytest | tee log": "pytest | tee log",
    "PYTHONPATH=src pytest": "PYTHONPATH=src:$PYTHONPATH pytest",
}


@pytest.mark.parametrize("line", SHELL_LINES)
async def test_a_line_that_needs_a_shell_is_run_by_one(tmp_path: Path, line: str) -> None:
    assert needs_shell(line)
    (command,) = await found(tmp_path, TESTS, "sh", "-c", line)
    assert command.argv == ("sh", "-c", SHELL_LINES[line])
    assert (command.kind, command.argv_with_recorder(["a.py"])) == ("pytest", command.argv)
    assert "pytest_plugin" in command.recorder_options()


@pytest.mark.parametrize("line", ["pytest -k 'a | b'", 'pytest -m "x > 1"', "pytest t.py::test[a]"])
def test_a_plain_line_needs_no_shell(line: str) -> None:
    assert not needs_shell(line)


async def test_a_manager_before_the_runner_is_left_out(tmp_path: Path) -> None:
    words = ("uv", "run", "--group", "test", "--frozen", "pytest", "-q")
    (command,) = await found(tmp_path, TESTS, *words)
    assert (command.argv, command.kind) == (("pytest", "-q"), "pytest")
    (command,) = await found(tmp_path, TESTS, "env", "KILN=hot", "pytest")
    assert (command.argv, command.kind) == (("env", "KILN=hot", "pytest"), "pytest")


async def test_toxs_commands_are_found_in_every_file_that_tox_reads(tmp_path: Path) -> None:
    cfg = "[tox:tox]\nenvlist = py\n[base]\nrun = pytest suite\n[testenv]\ncommands = {[base]run}\n"
    native = '[env_run_base]\ncommands = [["pytest", "suite"], [{ replace = "posargs" }]]\n'
    inside = native.replace("[env", "[tool.tox.env")
    for name, text in {"setup.cfg": cfg, "tox.toml": native, "pyproject.toml": inside}.items():
        first = (await found(tmp_path / name, {**TESTS, name: text}))[0]
        assert (first.source, first.argv) == ("tox", ("python", "-m", "pytest", "suite"))


def test_variables_of_tox_and_ci_are_read_where_they_are_literal() -> None:
    tox = (
        "[testenv]\nsetenv =\n    SHOP_MODE = test\n    PYTHONPATH = {toxinidir}/src\n"
        "    OTHER = {env:OTHER:usual}\n    TMP = {envtmpdir}\n    PIP_INDEX_URL = x\n"
    )
    ci = (
        "env: {LEVEL: top}\njobs:\n  test:\n    env: {DATABASE_URL: 'postgres://db', WIDTH: '80'}\n"
        "    steps:\n    - run: pytest\n      env: {LEVEL: step, X: '${{ secrets.X }}'}\n"
    )
    texts = {"tox.ini": tox, ".github/workflows/ci.yml": ci}
    assert find_variables(texts) == {
        "SHOP_MODE": "test",
        "PYTHONPATH": "/testbed/src",
        "OTHER": "usual",
        "LEVEL": "step",
        "WIDTH": "80",
    }
    native = '[env_run_base.set_env]\nSHOP_MODE = "toml"\n'
    assert find_variables({"tox.toml": native}) == {"SHOP_MODE": "toml"}


async def test_the_command_of_ci_comes_before_a_guess(tmp_path: Path) -> None:
    ci = (
        "jobs:\n  test:\n    steps:\n    - run: uv run pytest -n auto --cov=x -m 'not slow' tests\n"
    )
    own, usual = await found(tmp_path, {**TESTS, ".github/workflows/ci.yml": ci})
    assert own.argv == ("python", "-m", "pytest", "-m", "not slow", "tests")
    assert (own.places, usual.argv[-1]) == (("tests",), "pytest")
