"""The ladder of attempts that install a Python repository."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from pipeline.languages.language import Asked
from pipeline.languages.manifests import Manifests, strings, table
from pipeline.languages.python.ci import find_ci_recipe
from pipeline.languages.python.interpreter import (
    DEFAULT_MINOR,
    RELEASED,
    PythonRequirement,
    find_python_at,
)
from pipeline.languages.python.interpreter import find_python_requirement as find_python
from pipeline.languages.python.locks import REQUIREMENTS_FILE, Lock, read_lock
from pipeline.languages.python.metadata import find_version, guess_name, is_package, project_of
from pipeline.languages.python.origins import direct_references, find_elsewhere
from pipeline.languages.python.requirements import (
    TestNeeds,
    find_development_needs,
    find_test_needs,
)
from pipeline.languages.python.roots import find_members
from sandbox.environment.build_options import INCOMING
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.guest.installer.plan import GRACE, WHEELS, Plan, latest_day, nearest_day
from sandbox.layout import SYSTEM_PYTHON

PLAN_FILE: Final = "plan.json"
MOST_OTHERS: Final = 10
INSTALL: Final = f"{SYSTEM_PYTHON} -I /opt/capuchin/install.py {INCOMING}/{PLAN_FILE}"


def make_installer_plan(manifests: Manifests, *, name: str, needs: TestNeeds) -> Plan:
    """Plan the installation of the package, if the tree is one, and of its tests' requirements."""
    project = project_of(manifests.texts)
    build = table(project, "build-system")
    backend = build.get("build-backend")
    return Plan(
        name=name,
        package=is_package(project, manifests.names),
        backend=backend if isinstance(backend, str) else "",
        build_requires=strings(build.get("requires")),
        setup_py="setup.py" in manifests.names,
        extras=[*needs.extras],
        files=[*needs.files],
        requirements=[*needs.requirements, *direct_references(manifests.texts)],
        elsewhere=find_elsewhere(manifests.texts),
        released=[[f"3.{minor}", str(day)] for minor, day in RELEASED.items()],
    )


COMPILING_BACKENDS: Final = (
    "mesonpy",
    "scikit_build_core",
    "skbuild",
    "maturin",
    "setuptools_rust",
)
COMPILING_REQUIREMENTS: Final = re.compile(
    r"^(cython|numpy|pybind11|cffi|nanobind|scikit-build|scikit-build-core|meson-python|maturin"
    r"|setuptools-rust|mypy)\b",
    re.IGNORECASE,
)
EXTENSION: Final = re.compile(
    r"\bext_modules\b|Extension\s*\(|\bcythonize\b|\bcffi_modules\b|\brust_extensions\b|\bskbuild\b"
)
CYTHON: Final = re.compile(r"(?!(.*/)?(tests?|docs?|examples?|benchmarks?)/).*\.pyx")
FORTRAN: Final = re.compile(r".*\.[fF](or|77|90|95|03|08)?")
SOURCES: Final = re.compile(rf".*\.(c|cc|cpp|cxx|pyx|rs)|{FORTRAN.pattern}")
CARGO: Final = "cargo-web|cargo"
"""Each brings its compiler; the first is the new one that browsers need, where Debian has it."""
COMPILER: Final = ("build-essential", "pkg-config", "python3-dev")


def find_system_packages(
    names: Sequence[str], texts: Mapping[str, str], project: Mapping[str, Any], named: Iterable[str]
) -> tuple[str, ...]:
    """Find a compiler for a package with parts to compile, and the libraries that its CI names.

    CI machines come with compilers, so that no file needs to name one.
    """
    build = table(project, "build-system")
    requires = strings(build.get("requires"))
    backend = str(build.get("build-backend") or "")
    compiled = any(SOURCES.fullmatch(name) for name in names)
    asks = (
        backend.split(".")[0] in COMPILING_BACKENDS
        or any(COMPILING_REQUIREMENTS.match(one) for one in requires)
        or bool(EXTENSION.search(texts.get("setup.py", "")))
        or bool(table(project, "tool", "setuptools").get("ext-modules"))
        # A backend in the tree wraps another one; nobody but it names what it compiles.
        or bool(build.get("backend-path"))
        or any(CYTHON.fullmatch(name) for name in names)
    )
    if not (compiled and asks):
        return tuple(dict.fromkeys(named))
    found = [*COMPILER]
    if any(FORTRAN.fullmatch(name) for name in names):
        found.append("gfortran")
    if any(name.endswith(".rs") for name in names):
        found.append(CARGO)
    return tuple(dict.fromkeys([*found, *named]))


RECENT: Final = timedelta(days=28)
"""For a commit this young, the index as of its day equals today's index."""
UV_STEP: Final = (
    "test -x /opt/tools/uv/bin/uv || "
    "python -m pip install --quiet --target /opt/tools/uv uv || "
    # By itself pip says of an index that does not answer that it has no such package.
    '{ python -m pip install -vv --target /opt/tools/uv uv | grep "Could not fetch URL"; '
    "test -x /opt/tools/uv/bin/uv; }"
)


class AttemptMaker:
    """Makes the attempts that the installer executes.

    `root`: the folder of the project, whose files `manifests` are; `siblings`: folders from there
    of what it takes by path; `others`: those of the tree's other packages.
    """

    def __init__(
        self,
        manifests: Manifests,
        asked: Asked,
        root: str,
        siblings: Sequence[str],
        others: Sequence[str],
    ) -> None:
        self.manifests = manifests
        self.root = root
        self.siblings = siblings
        self.others = others
        today = datetime.now(UTC).date()
        self.day = asked.as_of or today
        self.is_old = self.day < today - RECENT
        self.configured = find_python({}, configured=asked.version) if asked.version else None
        self.name = guess_name(manifests.texts)
        self.ci = find_ci_recipe(manifests.names, manifests.texts)
        self.packages = find_system_packages(
            manifests.names, manifests.texts, project_of(manifests.texts), self.ci.system_packages
        )
        self.version, self.source = find_version(self.name, manifests.texts, asked.described)

    def list_attempts(self) -> list[Attempt]:
        """The ways to install the tree that differ, the most promising first."""
        different: dict[str, Attempt] = {}
        for attempt in self._make_attempts():
            different.setdefault(re.sub(r'"attempt": "\w+"', "", repr(attempt.recipe)), attempt)
        return list(different.values())

    def _make_attempts(self) -> Iterator[Attempt]:
        python = self.configured or find_python_at(self.manifests.texts, self.day)
        needs = find_test_needs(self.manifests.names, self.manifests.texts, first_minor(python))
        lock = read_lock(self.manifests, first_minor(python))
        if lock:
            yield self.make_locked(lock, python)
        if not self.ci.needs.is_empty:
            # CI's lines are often a part of the requirements, and a second resolution costs
            # minutes.
            yield self.make("ci", python, self.ci.needs | needs, dated=self.is_old)
        name = "dated" if self.is_old else "undated"
        yield self.make(name, python, needs, dated=self.is_old)
        # With what failed before goes what is for development.
        more = find_development_needs(self.manifests.texts)
        yield self.make("wide", python, needs | more, dated=False)

    def make_locked(self, lock: Lock, python: PythonRequirement) -> Attempt:
        plan = make_installer_plan(self.manifests, name=self.name, needs=TestNeeds())
        plan = replace(
            plan,
            attempt="lock",
            package=lock.package,
            uv_export=[*lock.uv_export],
            locked=REQUIREMENTS_FILE if lock.requirements else "",
            commit_day=self.day.isoformat(),
        )
        files = ((REQUIREMENTS_FILE, lock.requirements),) if lock.requirements else ()
        summary = f"Python 3.{first_minor(python)}, exactly what {lock.path} names."
        return Attempt("lock", summary, self.recipe(plan, python, files))

    def make(
        self, name: str, python: PythonRequirement, needs: TestNeeds, *, dated: bool
    ) -> Attempt:
        plan = make_installer_plan(self.manifests, name=self.name, needs=needs)
        day = self.day.isoformat()
        plan = replace(plan, attempt=name, as_of=day if dated else "", commit_day=day)
        return Attempt(name, summarise(python, plan, needs), self.recipe(plan, python))

    def recipe(
        self, plan: Plan, python: PythonRequirement, files: tuple[tuple[str, str], ...] = ()
    ) -> Recipe:
        return Recipe(
            system_packages=self.packages,
            steps=(INSTALL,),
            tools=(UV_STEP, python.to_step()),
            version=self.version,
            version_source=self.source,
            name=self.name or None,
            inputs=self.manifests.inputs,
            files=((PLAN_FILE, self.write_plan(plan)), *files),
        )

    def write_plan(self, plan: Plan) -> str:
        members = [*find_members(self.manifests.names, self.manifests.texts)]
        siblings = [one for one in self.siblings if one not in members]
        others = [one for one in self.others if one not in {*members, *siblings}]
        whole = replace(
            plan, root=self.root, members=members, siblings=siblings, others=others[:MOST_OTHERS]
        )
        return json.dumps(asdict(whole), sort_keys=True)


def first_minor(python: PythonRequirement) -> int:
    return (python.wanted or python.accepted or (DEFAULT_MINOR,))[0]


def summarise(python: PythonRequirement, plan: Plan, needs: TestNeeds) -> str:
    first = first_minor(python)
    parts = [f"Python 3.{first}"]
    if DEFAULT_MINOR in python.wanted and first != DEFAULT_MINOR:
        parts = [f"Python 3.{first} (3.{DEFAULT_MINOR} if it is not there)"]
    parts.append(describe_packages(plan, first))
    if needs.source:
        parts.append(needs.source)
    return f"{', '.join(parts)}."


def describe_packages(plan: Plan, minor: int) -> str:
    """Which packages count on Python `3.minor`: by the day that the installer tries first there."""
    latest = nearest_day(plan, f"3.{minor}") or latest_day(plan, f"3.{minor}")
    if latest is None:
        return "the newest packages"
    grown_up = latest > date.fromisoformat(plan.as_of) + GRACE
    why = f" ({WHEELS.days} days after Python 3.{minor} came out)" if grown_up else ""
    return f"packages as of {latest}{why}"
