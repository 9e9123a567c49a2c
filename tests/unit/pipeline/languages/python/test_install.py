"""The ladder of attempts for a tree."""

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pipeline.environment.record import NO_INDEX, TriedAttempt
from pipeline.languages import detect
from pipeline.languages.python.install import CARGO, COMPILER, UV_STEP, find_system_packages
from pipeline.languages.python.interpreter import find_python_at
from pipeline.languages.python.packages import find_packages
from pipeline.languages.python.requirements import find_test_needs
from pipeline.languages.python.roots import find_members, find_root
from sandbox.engine import EnvironmentRequest
from sandbox.environment.recipe import Attempt
from sandbox.tree import Tree
from tests.support.docker import make_tree
from tests.support.serving import serve_beside
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
TOX: str = TEXTS["TOX"]
CLASSIFIERS = "".join(f"Programming Language :: Python :: 3.{n}\n" for n in (6, 7, 8))
FILES = {
    "setup.py": f"setup(name='shop', extras_require={{'qa': []}})\n{CLASSIFIERS}",
    "tox.ini": TOX,
    "tests/requirements/py3.txt": "pytest\n",
    "tests-min.txt": "",
}
OLD = date(2019, 7, 20)


def make_plan(tree: Tree, **asked: Any) -> tuple[Attempt, ...]:
    return detect.make_plan(EnvironmentRequest(tree, **asked))


def plan_of(attempt: Attempt) -> dict[str, Any]:
    return json.loads(dict(attempt.recipe.files)["plan.json"])


def test_an_old_commit_is_installed_as_of_its_day_first(tmp_path: Path) -> None:
    plan = make_plan(make_tree(tmp_path, FILES), as_of=OLD, described="v1.2-3-gabc")
    assert [attempt.name for attempt in plan] == ["dated", "wide"]
    assert plan[0].summary == ("Python 3.7, packages as of 2019-08-03, tox's requirements.")
    first = plan_of(plan[0])
    assert (first["as_of"], plan_of(plan[1])["as_of"]) == ("2019-07-20", "")
    # The environment of Python 3.7 with the fewest factors, and the lines of its factors.
    assert first["extras"] == ["qa"]
    assert first["files"] == ["tests/requirements/py3.txt"]
    assert first["requirements"] == ["six"]
    assert plan[0].recipe.version == "1.3.dev3"


def test_the_summary_names_the_day_that_the_installer_uses(tmp_path: Path) -> None:
    """Before its Python was common, packages of the commit's own day have no wheels for it."""
    tree = make_tree(tmp_path, {"setup.py": "setup(name='shop')", "tox.ini": "[tox]\n"})
    plan = make_plan(tree, as_of=date(2013, 1, 24), python="3.6")
    assert [attempt.summary for attempt in plan[:2]] == [
        "Python 3.6, packages as of 2017-09-19 (270 days after Python 3.6 came out).",
        "Python 3.6, the newest packages.",
    ]


def test_a_young_commit_has_no_attempt_twice(tmp_path: Path) -> None:
    files = {"pyproject.toml": "[project]\nname = 'shop'\n", "a.py": ""}
    plan = make_plan(make_tree(tmp_path, files), as_of=datetime.now(UTC).date())
    assert [attempt.name for attempt in plan] == ["undated"]


def test_the_maintainers_word_is_the_only_attempt(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {**FILES, "Dockerfile": "FROM capuchin/base\n"})
    for given in ({"setup": ["make install"]}, {"dockerfile": "Dockerfile"}):
        (only,) = make_plan(tree, as_of=OLD, **given)
        assert only.only
        assert only.name == next(iter(given))


def test_a_lock_file_that_is_too_large_is_reported_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"pyproject.toml": "[project]\nname='x'\n", "a.py": "", "poetry.lock": "x" * 9_000_000}
    plan = make_plan(make_tree(tmp_path, files))
    limit = "8 MB per file, 32 MB for all manifests together"
    assert f"poetry.lock is too large to be read ({limit})." in plan[0].summary
    assert "lock" not in [attempt.name for attempt in plan]
    monkeypatch.setattr("pipeline.languages.detect.MAX_ALL_BYTES", 1000)
    plan = make_plan(make_tree(tmp_path / "b", {"a.py": "", "poetry.lock": "#" * 1001}))
    assert "poetry.lock is too large to be read" in plan[0].summary


@pytest.mark.parametrize(
    ("files", "day", "minors"),
    [
        # Declared and mature: 3.8 came out in October 2019.
        (FILES, date(2020, 1, 1), (7, 6, 8)),
        (FILES, date(2020, 7, 1), (8, 7, 6)),
        # Older than any: the oldest declared one is the nearest.
        (FILES, date(2013, 1, 1), (6, 7, 8)),
        ({"setup.py": "python_requires='>=3.7,<3.10'"}, date(2020, 7, 1), (8, 7)),
        ({".python-version": "3.9.1", **FILES}, date(2021, 7, 1), (9,)),
        ({".travis.yml": "python:\n  - 3.6\n  - '3.7'\n"}, date(2019, 7, 1), (7, 6)),
    ],
)
def test_python_is_the_newest_that_was_mature_on_that_day(
    files: dict[str, str], day: date, minors: tuple[int, ...]
) -> None:
    assert find_python_at(files, day).wanted[: len(minors)] == minors


class BadGateway(BaseHTTPRequestHandler):
    """The cache of the index, where the index itself is out of reach."""

    def do_GET(self) -> None:
        self.send_error(502)


def test_an_index_out_of_reach_is_not_said_to_lack_uv(tmp_path: Path) -> None:
    python = os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
    environment = {"PATH": python, "PIP_CONFIG_FILE": os.devnull}
    environment["PIP_RETRIES"] = "1"  # pip waits longer before each
    line = UV_STEP.replace("/opt/tools", str(tmp_path))
    with serve_beside(BadGateway) as port:
        environment["PIP_INDEX_URL"] = f"http://127.0.0.1:{port}/simple"
        done = subprocess.run(
            ["sh", "-c", line], env=environment, capture_output=True, text=True, check=False
        )
    tried = TriedAttempt(
        name="dated", summary="Python 3.8.", problem="A step failed.", log=done.stderr + done.stdout
    )
    assert done.returncode != 0
    assert tried.line() == f"Python 3.8: not installed: {NO_INDEX}"


@pytest.mark.parametrize(
    ("name", "text", "extras", "source"),
    [
        (
            "tox.ini",
            "[testenv]\ndeps =\n  .[cli, qa]\n  six\ncommands = pytest\n",
            ("cli", "qa"),
            "tox's",
        ),
        (
            "tox.ini",
            "[testenv]\nskip_install = True\ncommands =\n  pip install -e .[qa]\n  pytest\n",
            ("qa",),
            "tox's",
        ),
        ("tox.ini", "[testenv]\ndeps = -e {toxinidir}[qa]\ncommands = pytest\n", ("qa",), "tox's"),
    ],
)
def test_the_extras_of_the_checkout_itself_are_installed(
    name: str, text: str, extras: tuple[str, ...], source: str
) -> None:
    needs = find_test_needs((name, "setup.py"), {name: text, "setup.py": "setup(name='shop')"}, 11)
    assert (needs.extras, needs.source) == (extras, f"{source} requirements")


GROUPS = """\
[project]
name = "shop"
[dependency-groups]
test = ["pytest"]
dev = [{include-group = "test"}, "trustme"]
"""


def test_a_later_attempt_installs_what_is_for_development_too(tmp_path: Path) -> None:
    """urllib3's `conftest.py` imports a package of that group."""
    tree = make_tree(tmp_path, {"pyproject.toml": GROUPS, "shop.py": ""})
    plan = make_plan(tree)
    named = [requirements_of(attempt) for attempt in plan[:2]]
    assert named == [["pytest"], ["pytest", "trustme"]]
    assert [attempt.name for attempt in plan] == ["undated", "wide"]
    assert plan[1].summary.endswith('the newest packages, the group "test" and the group "dev".')
    old = make_plan(tree, as_of=date(2022, 1, 1))
    assert [attempt.name for attempt in old] == ["dated", "wide"]
    assert [requirements_of(attempt) for attempt in old] == named


def requirements_of(attempt: Attempt) -> list[str]:
    (_, text), *_ = attempt.recipe.files
    found: list[str] = json.loads(text)["requirements"]
    return found


WRAPPED = {"build-system": {"build-backend": "ours.hooks", "backend-path": ["packaging"]}}


MATURIN = {"build-system": {"build-backend": "maturin", "requires": ["maturin>=1"]}}
SKBUILD = {"build-system": {"build-backend": "scikit_build_core.build"}}
MESON = {"build-system": {"build-backend": "mesonpy", "requires": ["meson-python"]}}
RUST = {"build-system": {"requires": ["setuptools", "setuptools-rust"]}}


@pytest.mark.parametrize(
    ("names", "script", "project", "found"),
    [
        (["src/lib.rs"], "", MATURIN, (*COMPILER, CARGO)),
        (["src/lib.rs"], "", RUST, (*COMPILER, CARGO)),
        (["src/lib.rs", "setup.py"], "rust_extensions=[RustExtension('a')]", {},
         (*COMPILER, CARGO)),
        (["setup.py", "a.cpp"], "from skbuild import setup", {}, COMPILER),
        (["a.cpp"], "", SKBUILD, COMPILER),
        (["a.f90"], "", MESON, (*COMPILER, "gfortran")),
        (["a.F", "b.c"], "", MESON, (*COMPILER, "gfortran")),
        (["a.py"], "", MATURIN, ()),
    ],
)  # fmt: skip
def test_each_backend_gets_what_compiles_its_sources(
    names: list[str], script: str, project: dict[str, object], found: tuple[str, ...]
) -> None:
    assert find_system_packages(names, {"setup.py": script}, project, []) == found


@pytest.mark.parametrize(
    ("names", "project", "compiler"),
    [
        (["yarl/_quoting_c.pyx"], WRAPPED, True),
        (["msgpack/_cmsgpack.pyx", "setup.py"], {}, True),
        (["core/fast.c"], WRAPPED, True),
        (["core/slow.py"], WRAPPED, False),
        (["tests/data/example.pyx", "docs/some.c"], {}, False),
    ],
)
def test_a_compiler_is_there_for_what_a_backend_compiles(
    names: list[str], project: dict[str, object], compiler: bool
) -> None:
    found = find_system_packages(names, {}, project, ["libxml2-dev"])
    assert found == ((*COMPILER, "libxml2-dev") if compiler else ("libxml2-dev",))


ELSEWHERE: str = TEXTS["ELSEWHERE"]


def test_what_comes_from_elsewhere_is_never_asked_of_the_index(tmp_path: Path) -> None:
    attempts = make_plan(make_tree(tmp_path, {"pyproject.toml": ELSEWHERE, "shop/__init__.py": ""}))
    for attempt in attempts:
        plan = plan_of(attempt)
        assert sorted(plan["elsewhere"]) == ["loaf", "oven", "shop-core", "till"]
        assert "oven @ git+https://git.example/oven@v2" in plan["requirements"]


BACKEND = {
    "backend/pyproject.toml": "[project]\nname='shop'\nrequires-python='>=3.10,<3.11'\n"
    "[project.optional-dependencies]\ntest = ['six']\n",
    "backend/shop/__init__.py": "",
    "examples/setup.py": "",
}


def test_a_project_below_the_root_is_found_and_read(tmp_path: Path) -> None:
    (first,) = make_plan(make_tree(tmp_path, BACKEND))
    plan = plan_of(first)
    assert (plan["root"], plan["name"], plan["package"]) == ("backend", "shop", True)
    assert plan["extras"] == ["test"]
    assert "3.10" in first.summary


def test_a_manifest_at_the_root_decides_and_no_example_does() -> None:
    assert find_root(BACKEND) == "backend"
    assert find_root({**BACKEND, "setup.py": ""}) == ""
    assert find_root(["examples/setup.py", "tests/data/pyproject.toml"]) == ""
    several = ["requirements.txt", "libs/a/pyproject.toml", "libs/b/setup.py", "libs/a/a.py"]
    assert find_root([*several, "tests/x.py"]) == "libs/a"
    assert find_root([*several, "manage.py"]) == ""


WORKSPACE: dict[str, str] = TEXTS["WORKSPACE"]


def test_the_members_of_a_workspace_are_installed(tmp_path: Path) -> None:
    for attempt in make_plan(make_tree(tmp_path, WORKSPACE)):
        plan = plan_of(attempt)
        assert plan["members"] == ["packages/core", "packages/till"]
        assert "shop-core" in plan["elsewhere"]
    members = find_members(WORKSPACE, WORKSPACE)
    assert find_packages(WORKSPACE, {}, members) == ("core", "till")


def test_what_a_project_takes_by_a_path_of_the_tree_is_installed_from_there(tmp_path: Path) -> None:
    project = "[project]\nname = '{0}'\ndependencies = ['{1}']\n[tool.uv.sources]\n"
    project += "{1} = {{ path = '../{2}', editable = true }}\n"
    files = {
        "libs/graph/pyproject.toml": project.format("graph", "graph-core", "core"),
        "libs/core/pyproject.toml": project.format("graph-core", "graph-io", "io"),
        "libs/graph/a.py": "",
        "libs/other/a.py": "",
        "libs/io/pyproject.toml": "[project]\nname = 'graph-io'\n",
        "libs/other/pyproject.toml": project.format("other", "x", "../../etc"),
    }
    files["libs/app/pyproject.toml"] = files["libs/graph/pyproject.toml"].replace(
        "path = '../core', editable", "workspace"
    )
    files["libs/app/a.py"] = ""
    wanted = {
        "libs/graph": ["../core", "../io"],
        "libs/other": [],
        "libs/app": ["../core", "../io"],
    }
    for root, siblings in wanted.items():
        request = EnvironmentRequest(make_tree(tmp_path, files), root=root)
        for attempt in detect.make_plan(request):
            assert plan_of(attempt)["siblings"] == siblings
