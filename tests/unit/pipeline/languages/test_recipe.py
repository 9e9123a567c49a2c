"""How a repository is installed, found out from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.languages.detect import make_recipe, read_manifests
from pipeline.languages.language import Asked
from sandbox.environment.build_options import scm_versions
from sandbox.environment.recipe import Recipe
from sandbox.errors import EnvironmentFailed
from sandbox.tree import Tree
from tests.support.docker import make_tree

EDITABLE = "pip install --editable ."
PYTEST = "pip install pytest"


def detect_recipe(tree: Tree, dockerfile: str = "", **given: Any) -> Recipe:
    asked = Asked(given.pop("python", ""), described=given.pop("described", ""))
    return make_recipe(read_manifests(tree, dockerfile), asked, dockerfile=dockerfile, **given)


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        ({}, [PYTEST]),
        ({"pyproject.toml": "[project]\nname='x'\n"}, [EDITABLE, PYTEST]),
        ({"pyproject.toml": "[build-system]\nrequires=[]\n"}, [EDITABLE, PYTEST]),
        ({"pyproject.toml": "[tool.poetry]\nname='x'\n"}, [EDITABLE, PYTEST]),
        ({"pyproject.toml": "[tool.black]\n"}, [PYTEST]),
        ({"pyproject.toml": "this is [not toml"}, [PYTEST]),
        ({"pyproject.toml": "project = 3\ntool = 'x'\n[dependency-groups]\n"}, [EDITABLE, PYTEST]),
        ({"setup.py": "from setuptools import setup; setup()"}, [EDITABLE, PYTEST]),
        ({"setup.cfg": "[flake8]\n"}, [PYTEST]),
        (
            {"pyproject.toml": "[project]\nname='x'\n[project.optional-dependencies]\n"
             "dev=[]\ntests=[]\ndocs=[]\n"},
            ["pip install --editable '.[tests]'", PYTEST],
        ),
        (
            {"setup.py": "EXTRAS_REQUIRE = {'tests': ['pytest'], 'lint': []}\n"
             "EXTRAS_REQUIRE['dev'] = EXTRAS_REQUIRE['tests']\n"},
            ["pip install --editable '.[tests]'", PYTEST],
        ),
        (
            {"setup.py": "", "setup.cfg": "[options.extras_require]\ntesting =\n  pytest\n"},
            ["pip install --editable '.[testing]'", PYTEST],
        ),
        ({"setup.py": "", "setup.cfg": "= no ini at all"}, [EDITABLE, PYTEST]),
        (
            {"pyproject.toml": "[project]\nname='x'\n[dependency-groups]\ndev=['a']\ntest=['b']\n"},
            [EDITABLE, "pip install --upgrade 'pip>=25.1'", "pip install --group test", PYTEST],
        ),
        (
            {"requirements.txt": "a", "requirements-dev.txt": "b", "requirements-docs.txt": "c"},
            [
                "pip install --requirement ./requirements.txt",
                "pip install --requirement ./requirements-dev.txt",
                PYTEST,
            ],
        ),
        (
            {"setup.py": "", "requirements.txt": "a", "dev-requirements.txt": "b"},
            [EDITABLE, "pip install --requirement ./dev-requirements.txt", PYTEST],
        ),
        (
            {
                "setup.py": "",
                "requirements/base.txt": "a",
                "requirements/test.txt": "b",
                "requirements/dev.txt": "c",
            },
            [EDITABLE, "pip install --requirement ./requirements/test.txt", PYTEST],
        ),
        (
            {"setup.py": "", "requirements/tests.txt": "a", "requirements/tests37.txt": "b"},
            [EDITABLE, "pip install --requirement ./requirements/tests.txt", PYTEST],
        ),
        (
            {"setup.py": "", "requirements.txt": "a==1\npytest==8.3\n"},
            [EDITABLE, "pip install --requirement ./requirements.txt", PYTEST],
        ),
        ({"setup.py": "", "requirements.txt": "a==1\n"}, [EDITABLE, PYTEST]),
    ],
)  # fmt: skip
def test_steps_follow_the_files(tmp_path: Path, files: dict[str, str], steps: list[str]) -> None:
    found = detect_recipe(make_tree(tmp_path, {"pkg/a.py": "", **files}))
    assert list(found.steps) == steps


def test_a_hostile_file_name_never_becomes_a_command(tmp_path: Path) -> None:
    name = "test-requirements;id>x.txt"
    found = detect_recipe(make_tree(tmp_path, {"a.py": "", name: ""}))
    assert found.steps[0] == f"pip install --requirement './{name}'"


def test_setup_lines_replace_what_would_be_found(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"setup.py": ""})
    assert detect_recipe(tree, setup=["make install", " "]).steps == ("make install",)


def test_the_dependencies_change_with_the_files_that_name_them_only(tmp_path: Path) -> None:
    digests = [
        detect_recipe(make_tree(tmp_path, files)).digest
        for files in (
            {"a.py": "1", "requirements.txt": "x"},
            {"a.py": "2", "requirements.txt": "x"},
            {"a.py": "2", "requirements.txt": "y"},
        )
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_source_release_states_its_name_and_version(tmp_path: Path) -> None:
    text = "Metadata-Version: 1.1\nName: my.Pkg\nVersion: 3.0.0rc1\n"
    found = detect_recipe(make_tree(tmp_path, {"setup.py": "", "PKG-INFO": text}))
    assert (found.name, found.version) == ("my.Pkg", "3.0.0rc1")
    assert scm_versions(found.version, found.name)["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_PKG"] == (
        "3.0.0rc1"
    )


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"pyproject.toml": "[project]\nname = 'a-b'\n"}, "a-b"),
        ({"pyproject.toml": "[tool.poetry]\nname = 'p'\n"}, "p"),
        ({"setup.cfg": "[metadata]\nname = c\n"}, "c"),
        ({"setup.py": "setup(name='only when run')"}, None),
    ],
)
def test_the_name_of_the_package_is_read_where_it_is_stated(
    tmp_path: Path, files: dict[str, str], name: str | None
) -> None:
    assert detect_recipe(make_tree(tmp_path, {"a.py": "", **files})).name == name


def test_without_a_name_every_package_is_told_the_version() -> None:
    assert "SETUPTOOLS_SCM_PRETEND_VERSION" in scm_versions("1", None)


def test_a_repository_without_python_is_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="no Python file"):
        detect_recipe(make_tree(tmp_path, {"index.js": ""}), setup=["make"])
