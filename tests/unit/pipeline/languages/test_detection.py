"""Lock files, tox, nox and Node: each rule on the smallest tree that shows it."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.languages.detect import make_recipe, read_manifests
from pipeline.languages.language import Asked
from pipeline.languages.python.tox_nox import expand_environments, nox_routine, tox_routine
from sandbox.environment.recipe import Recipe
from sandbox.tree import Tree
from tests.support.docker import make_tree

PYTEST = "pip install pytest"
PROJECT = "[project]\nname = 'x'\n"
NODE = "/opt/capuchin/python -I /opt/capuchin/choose_node.py --accepted"


def detect_recipe(tree: Tree, dockerfile: str = "", **given: Any) -> Recipe:
    asked = Asked(given.pop("python", ""), described=given.pop("described", ""))
    return make_recipe(read_manifests(tree, dockerfile), asked, dockerfile=dockerfile, **given)


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        ({"uv.lock": ""}, [PYTEST]),
        (
            {"setup.py": "", "tox.ini": "[testenv]\ndeps =\n  six\n  py38: old\n  -rreqs.txt\n"},
            ["pip install --editable .", "pip install six", "pip install -r reqs.txt", PYTEST],
        ),
        (
            {"setup.py": "", "tox.ini": "[testenv]\nextras = qa\ndeps = six\n"},
            ["pip install --editable '.[qa]'", PYTEST],
        ),
        (
            {"setup.py": "", "requirements-test.txt": "", "tox.ini": "[testenv]\ndeps = six\n"},
            ["pip install --editable .", "pip install --requirement ./requirements-test.txt", PYTEST],
        ),
        (
            {"noxfile.py": "import nox\n@nox.session(python=['3.9'])\ndef tests(session):\n"
             "    session.install('-r', 'x y.txt')\n    session.install(*more)\n"},
            ["pip install -r 'x y.txt'", PYTEST],
        ),
        ({"tests/requirements.txt": ""}, ["pip install --requirement ./tests/requirements.txt", PYTEST]),
    ],
)  # fmt: skip
def test_a_python_repository_is_installed_by_the_first_rule_that_fits(
    tmp_path: Path, files: dict[str, str], steps: list[str]
) -> None:
    assert list(detect_recipe(make_tree(tmp_path, {"a.py": "", **files})).steps) == steps


@pytest.mark.parametrize(
    ("files", "tools", "step"),
    [
        ({}, [f"{NODE} 22,24,20 --asked '' --where ''"], "npm install --no-package-lock"),
        ({"package-lock.json": ""}, [f"{NODE} 22,24,20 --asked '' --where ''"], "npm ci"),
        (
            {"pnpm-lock.yaml": "lockfileVersion: '6.0'\n", ".nvmrc": "v20.1\n"},
            [
                f"{NODE} 20 --asked v20.1 --where .nvmrc",
                "npm install --prefix /opt/env/node-tools --no-save pnpm@8 && "
                "ln -sf /opt/env/node-tools/node_modules/.bin/* /opt/env/bin/",
            ],
            "pnpm install --frozen-lockfile",
        ),
    ],
)
def test_a_node_repository_is_installed_by_its_lock_file(
    tmp_path: Path, files: dict[str, str], tools: list[str], step: str
) -> None:
    found = detect_recipe(make_tree(tmp_path, {"package.json": "{}", **files}))
    assert (list(found.tools), found.steps) == (tools, (step,))


@pytest.mark.parametrize(
    ("asked", "majors"),
    [
        (">=20", "22,24,20"), ("^20.1.0 || >=24", "24,20"), ("<22", "20"), (">=20 <24", "22,20"),
        ("20.x", "20"), ("22 - 24", "22,24"), ("*", "22,24,20"), ("~18.2", ""), ("14", "14"),
    ],
)  # fmt: skip
def test_the_node_that_engines_asks_for_is_understood(
    tmp_path: Path, asked: str, majors: str
) -> None:
    package = '{"engines": {"node": "' + asked + '"}}'
    found = detect_recipe(make_tree(tmp_path, {"package.json": package}))
    assert found.tools[0].split()[4] == (majors or "''")


@pytest.mark.parametrize("stated", ["yarn@4.1.0+sha224.ab", "pnpm@9.0.0", "npm@10.2.0"])
def test_the_package_manager_that_package_json_names_is_taken(tmp_path: Path, stated: str) -> None:
    package = '{"packageManager": "' + stated + '"}'
    found = detect_recipe(make_tree(tmp_path, {"package.json": package}))
    name = stated.partition("+")[0].replace("yarn@", "@yarnpkg/cli-dist@")
    assert f" {name} " in found.tools[1].replace("'", "")


def test_a_hostile_package_manager_never_becomes_a_command(tmp_path: Path) -> None:
    package = '{"packageManager": "pnpm@1;id", "engines": {"node": "20;$(id)"}}'
    found = detect_recipe(make_tree(tmp_path, {"package.json": package}))
    assert len(found.tools) == 1
    assert "--asked '20;$(id)'" in found.tools[0]


def test_a_python_repository_with_a_page_stays_one(tmp_path: Path) -> None:
    files = {"package.json": "{}", "pyproject.toml": PROJECT, "a.py": ""}
    assert detect_recipe(make_tree(tmp_path, files)).steps == ("pip install --editable .", PYTEST)


def test_python_beside_node_gets_its_test_runner(tmp_path: Path) -> None:
    found = detect_recipe(make_tree(tmp_path, {"package.json": "{}", "scripts/a.py": ""}))
    assert found.steps == ("npm install --no-package-lock", PYTEST)


def test_setup_lines_keep_the_tools_and_replace_the_rest(tmp_path: Path) -> None:
    found = detect_recipe(make_tree(tmp_path, {"package.json": "{}"}), setup=["npm run x"])
    assert (len(found.tools), found.steps) == (1, ("npm run x",))


def test_a_dockerfile_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Exception, match='no file "ci/D" in this repository'):
        detect_recipe(make_tree(tmp_path, {"a.py": ""}), dockerfile="ci/D")


def test_toxs_native_tables_and_its_old_ones_say_the_same() -> None:
    native = "[tool.tox.env_run_base]\ndeps = ['six']\ncommands = [['pytest', '-q']]\n"
    legacy = '[tool.tox]\nlegacy_tox_ini = """\n[testenv]\ndeps = six\ncommands = pytest -q\n"""\n'
    for text in (native, legacy):
        found = tox_routine({"pyproject.toml": text})
        assert found.installs == (("six",),)


def test_braces_are_unfolded_and_cannot_grow_without_end() -> None:
    assert list(expand_environments("py{38,39}-{a,b}, x")) == [
        "py38-a",
        "py38-b",
        "py39-a",
        "py39-b",
        "x",
    ]
    assert len(list(expand_environments("{a,b,c,d,e,f,g,h}" * 50))) <= 64


def test_a_noxfile_that_is_no_python_says_nothing() -> None:
    assert nox_routine({"noxfile.py": "def ("}).installs == ()
