"""The plan for the installer that runs inside the build container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandbox.environment.manifests import is_package, project_of, strings, table
from sandbox.environment.python import INCOMING
from sandbox.environment.python_version import RELEASED
from sandbox.environment.recipe import Manifests
from sandbox.environment.test_needs import TestNeeds
from sandbox.layout import SYSTEM_PYTHON

PLAN_FILE: Final = "plan.json"
INSTALL: Final = f"{SYSTEM_PYTHON} -I /opt/capuchin/install.py {INCOMING}/{PLAN_FILE}"


@dataclass(frozen=True)
class InstallerPlan:
    """`Plan` of `sandbox.guest.installer.plan`, which documents the fields."""

    attempt: str = ""
    name: str = ""
    package: bool = True
    backend: str = ""
    build_requires: tuple[str, ...] = ()
    setup_py: bool = False
    as_of: str = ""
    commit_day: str = ""
    extras: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    pytest: bool = True
    locked: tuple[str, ...] = ()
    uv_export: tuple[str, ...] = ()
    released: tuple[tuple[str, str], ...] = ()


def make_installer_plan(manifests: Manifests, *, name: str, needs: TestNeeds) -> InstallerPlan:
    """Plan the installation of the package, if the tree is one, and of its tests' requirements."""
    project = project_of(manifests.texts)
    build = table(project, "build-system")
    backend = build.get("build-backend")
    return InstallerPlan(
        name=name,
        package=is_package(project, manifests.names),
        backend=backend if isinstance(backend, str) else "",
        build_requires=tuple(strings(build.get("requires"))),
        setup_py="setup.py" in manifests.names,
        extras=needs.extras,
        files=needs.files,
        requirements=needs.requirements,
        optional=needs.optional,
        released=tuple((f"3.{minor}", str(day)) for minor, day in RELEASED.items()),
    )
