"""The ways to install a repository, the most promising first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from sandbox.environment.ci import find_ci_recipe
from sandbox.environment.installer_plan import (
    INSTALL,
    PLAN_FILE,
    InstallerPlan,
    make_installer_plan,
)
from sandbox.environment.locks import LOCKS, REQUIREMENTS_FILE, Lock, read_lock
from sandbox.environment.manifests import guess_name, project_of
from sandbox.environment.node import is_node
from sandbox.environment.python_version import DEFAULT_MINOR, PythonRequirement, find_python_at
from sandbox.environment.python_version import find_python_requirement as find_python
from sandbox.environment.recipe import (
    MAX_ALL_BYTES,
    MAX_FILE_BYTES,
    Manifests,
    Recipe,
    detect_recipe,
    read_manifests,
)
from sandbox.environment.system_packages import find_system_packages
from sandbox.environment.test_needs import TestNeeds, find_development_needs, find_test_needs
from sandbox.environment.versions import find_version
from sandbox.guest.installer.plan import GRACE, WHEELS, Plan, latest_day, nearest_day
from sandbox.tree import Tree

RECENT: Final = timedelta(days=28)
"""For a commit this young, the index as of its day equals today's index."""
MOST_ATTEMPTS: Final = 5
NAMES: Final = re.compile(r'"attempt": "\w+"')
UV_STEP: Final = (
    "test -x /opt/tools/uv/bin/uv || "
    "python -m pip install --quiet --target /opt/tools/uv uv || "
    # By itself pip says of an index that does not answer that it has no such package.
    '{ python -m pip install -vv --target /opt/tools/uv uv | grep "Could not fetch URL"; '
    "test -x /opt/tools/uv/bin/uv; }"
)


@dataclass(frozen=True)
class Attempt:
    """One way to install a tree."""

    name: str
    """Unique within a plan: `setup`, `dockerfile`, `lock`, `ci`, `dated`, `undated`, `today`."""
    summary: str
    """One sentence for people, such as "Python 3.8, the newest packages."."""
    recipe: Recipe
    only: bool = False
    """The maintainers' own setup: no other attempt may replace it."""


def make_plan(
    tree: Tree,
    *,
    setup: Sequence[str] = (),
    dockerfile: str = "",
    python: str = "",
    as_of: date | None = None,
    described: str = "",
) -> tuple[Attempt, ...]:
    """Plan the attempts for `tree`: only the lines of `setup` or the image of `dockerfile` if the
    maintainers set one of them; otherwise the attempts that its files suggest.

    `python` is the version that the maintainers want, `3.N`; `as_of` and `described` come from git.

    Raises:
        EnvironmentFailed: `tree` contains nothing to install or no such Dockerfile, or its archive
            cannot be read.
    """
    manifests = read_manifests(tree, dockerfile)
    recipe = detect_recipe(
        manifests, setup=setup, dockerfile=dockerfile, python=python, described=described
    )
    if dockerfile:
        return (Attempt("dockerfile", "The repository's own Dockerfile.", recipe, only=True),)
    if any(line.strip() for line in setup):
        return (Attempt("setup", "The repository's own setup lines.", recipe, only=True),)
    if is_node(manifests.names):
        return (Attempt("today", "What package.json and its lock file say.", recipe),)
    maker = _Maker(manifests, python, as_of, described)
    recipe = replace(recipe, system_packages=maker.packages)
    last = Attempt("today", "The newest packages, each by itself with pip.", recipe)
    different: dict[str, Attempt] = {}
    for attempt in (*maker.make_attempts(), last):
        different.setdefault(key_of(attempt.recipe), attempt)
    found = list(different.values())[:MOST_ATTEMPTS]
    unread = [name for name in manifests.too_large if name in LOCKS]
    if unread:
        most, most_together = MAX_FILE_BYTES >> 20, MAX_ALL_BYTES >> 20
        limit = f"{most} MB for a file, {most_together} MB for all that say what to install"
        note = f" {unread[0]} is too large to be read ({limit})."
        found[0] = replace(found[0], summary=found[0].summary + note)
    return tuple(found)


def key_of(recipe: Recipe) -> str:
    """A key that is equal for recipes with the same installation, under any attempt name."""
    files = [(name, NAMES.sub("", text)) for name, text in recipe.files]
    return repr((recipe.steps, recipe.tools, recipe.system_packages, files))


class _Maker:
    """Makes the attempts that the installer executes."""

    def __init__(
        self, manifests: Manifests, python: str, as_of: date | None, described: str
    ) -> None:
        self.manifests = manifests
        self.day = as_of or datetime.now(UTC).date()
        self.is_old = as_of is not None and as_of < datetime.now(UTC).date() - RECENT
        self.configured = find_python({}, configured=python) if python else None
        self.name = guess_name(manifests.texts)
        self.ci = find_ci_recipe(manifests.names, manifests.texts)
        self.packages = find_system_packages(
            manifests.names,
            manifests.texts,
            project_of(manifests.texts),
            self.ci.system_packages,
        )
        self.version, self.source = find_version(self.name, manifests.texts, described)

    def make_attempts(self) -> Iterator[Attempt]:
        python = self.configured or find_python_at(self.manifests.texts, self.day)
        needs = self.needs_on(python)
        lock = read_lock(self.manifests, first_minor(python))
        if lock:
            yield self.make_locked(lock, python)
        if not self.ci.needs.is_empty:
            # CI's lines are often a part of the requirements, and a second resolution costs
            # minutes.
            yield self.make("ci", python, self.ci.needs | needs, dated=self.is_old)
        # With what failed before goes what is for development.
        more = find_development_needs(self.manifests.texts)
        if not self.is_old:
            yield self.make("undated", python, needs, dated=False)
            yield self.make("wide", python, needs | more, dated=False)
            return
        yield self.make("dated", python, needs, dated=True)
        yield self.make("undated", python, needs | more, dated=False)
        other = other_python(python)
        if other and not self.configured:
            yield self.make("other", other, self.needs_on(other) | more, dated=True)

    def needs_on(self, python: PythonRequirement) -> TestNeeds:
        return find_test_needs(self.manifests.names, self.manifests.texts, first_minor(python))

    def make_locked(self, lock: Lock, python: PythonRequirement) -> Attempt:
        plan = make_installer_plan(self.manifests, name=self.name, needs=TestNeeds())
        plan = replace(
            plan,
            attempt="lock",
            package=lock.package,
            uv_export=lock.uv_export,
            locked=(REQUIREMENTS_FILE,) if lock.requirements else (),
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
        self,
        plan: InstallerPlan,
        python: PythonRequirement,
        files: tuple[tuple[str, str], ...] = (),
    ) -> Recipe:
        return Recipe(
            system_packages=self.packages,
            steps=(INSTALL,),
            tools=(UV_STEP, python.to_step()),
            version=self.version,
            version_source=self.source,
            name=self.name or None,
            inputs=self.manifests.inputs,
            files=((PLAN_FILE, json.dumps(asdict(plan), sort_keys=True)), *files),
        )


def other_python(python: PythonRequirement) -> PythonRequirement | None:
    """The requirement without its first choice; None if there is no second one."""
    rest = python.wanted[1:]
    return replace(python, wanted=rest, accepted=rest) if rest else None


def first_minor(python: PythonRequirement) -> int:
    return (python.wanted or python.accepted or (DEFAULT_MINOR,))[0]


def summarise(python: PythonRequirement, plan: InstallerPlan, needs: TestNeeds) -> str:
    first = first_minor(python)
    parts = [f"Python 3.{first}"]
    if DEFAULT_MINOR in python.wanted and first != DEFAULT_MINOR:
        parts = [f"Python 3.{first} (3.{DEFAULT_MINOR} if it is not there)"]
    parts.append(describe_packages(plan, first))
    if needs.source:
        parts.append(needs.source)
    return f"{', '.join(parts)}."


def describe_packages(plan: InstallerPlan, minor: int) -> str:
    """Which packages count on Python `3.minor`: by the day that the installer tries first there."""
    given = Plan(as_of=plan.as_of, released=[list(one) for one in plan.released])
    latest = nearest_day(given, f"3.{minor}") or latest_day(given, f"3.{minor}")
    if latest is None:
        return "the newest packages"
    grown_up = latest > date.fromisoformat(plan.as_of) + GRACE
    why = f" ({WHEELS.days} days after Python 3.{minor} came out)" if grown_up else ""
    return f"packages as of {latest}{why}"
