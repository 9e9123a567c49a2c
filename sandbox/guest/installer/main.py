"""Installs a repository by a plan; the exit code is 67 when its last line says why that failed."""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.guest.installer.package import (
    CHECKOUT,
    build_package,
    expand_keywords,
    expand_own,
    name_in,
    read_requirements,
    translate_cython,
)
from sandbox.guest.installer.plan import (
    NO_VERSION,
    Plan,
    latest_day,
    nearest_day,
    read_plan,
    read_python_version,
    read_record,
    scm_versions,
    write_record,
)
from sandbox.guest.installer.requirements import flatten, name_of, newest_release, normalise_name
from sandbox.guest.installer.resolve import (
    MISMATCH,
    Resolver,
    find_lacking,
    is_installed,
    last_line,
    read_installed,
)
from sandbox.guest.installer.uv import UV, TookTooLong, Uv, show_line

FAILED = 67
INCOMING = "/opt/incoming"
EXTRAS = ("test", "tests", "testing", "dev")
"""Of a workspace's members: those for tests."""
OTHERS_SECONDS = 120
"""For each of the tree's other packages."""
VERSION = "CAPUCHIN_VERSION"
"""The version of the package, if the host knows it."""


class Failed(Exception):
    """The repository could not be installed; the message says why."""


def main(argv: list[str]) -> int:
    plan, earlier = read_plan(argv[1]), read_record()
    python = read_python_version()
    show_line(f"python: {python}")
    latest = latest_day(plan, python)
    if earlier.get("as_of"):
        latest = datetime.date.fromisoformat(earlier["as_of"])
    version, source = tell_version(plan, earlier)
    uv = Uv(latest, scm_versions(version, plan.name))
    resolver = Resolver(uv, None if earlier else nearest_day(plan, python))
    if earlier:  # the same again, in the layer of the repository itself
        uv.later.update(earlier.get("later", {}))
        resolver.left_out.update({one["requirement"]: one["reason"] for one in earlier["left_out"]})
    try:
        install(plan, uv, resolver, int(python.split(".")[1]), version)
    except (Failed, TookTooLong) as error:
        show_line(str(error))
        return FAILED
    write_record(
        {
            "attempt": plan.attempt,
            "python": python,
            "as_of": uv.latest.isoformat() if uv.latest else "",
            "version": version,
            "version_source": source,
            "distributions": read_installed(uv),
            "commands": uv.commands[:500],
            "left_out": [
                {"requirement": one[:2000], "reason": why} for one, why in resolver.left_out.items()
            ],
            "later": uv.later,
        }
    )
    return 0


def install(plan: Plan, uv: Uv, resolver: Resolver, minor: int, version: str) -> None:
    """Raises `Failed` or `TookTooLong`."""
    locked = bool(plan.locked or plan.uv_export)
    if locked:
        install_locked(plan, uv)
    name = install_package(plan, uv, minor, version) if plan.package else ""
    tests = [*flatten(plan.files, CHECKOUT / plan.root, name), *plan.requirements]
    if plan.pytest and not {name_of(one) for one in tests} & {
        "pytest",
        name_of(plan.name or "pytest"),
    }:
        tests.append("pytest")
    needs = read_requirements(name, plan.extras) if name and not locked else []
    members = dict.fromkeys(install_members(plan, uv, plan.members), EXTRAS)
    siblings = install_members(plan, uv, plan.siblings)
    extras = {**members, **dict.fromkeys(siblings, ())}
    for member, wanted in extras.items():
        needs += [] if locked else read_requirements(member, wanted)
    own = set(map(normalise_name, extras))
    needs, tests = (
        leave_elsewhere(plan, resolver, [one for one in listed if name_of(one) not in own])
        for listed in (needs, tests)
    )
    if name:
        tests = expand_own(name, tests)
        uv.keep_own(name)
    if not (resolver.install_nearest([*needs, *tests]) or resolver.install(needs, tests)):
        raise Failed(explain("The package's requirements could not be installed", resolver.output))
    if plan.setup_py and minor < 12 and not is_installed(uv, "setuptools"):
        uv.install(["setuptools"])  # older code imports pkg_resources without asking for it
    if plan.others:
        install_others(plan, uv, resolver)


def install_others(plan: Plan, uv: Uv, resolver: Resolver) -> None:
    """Install the tree's other packages beside the project, each if what is there suits it."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as there:
        there.write("\n".join(read_installed(uv)))
        there.flush()
        for other in plan.others:
            words = ["-c", there.name, "-e", os.path.normpath(CHECKOUT / plan.root / other)]
            typed = ["-e", f"./{other}"]
            done, output = uv.install(words, typed=typed, seconds=OTHERS_SECONDS)
            if not done:
                resolver.left_out[f"./{other}"] = last_line(output)


def leave_elsewhere(plan: Plan, resolver: Resolver, requirements: Sequence[str]) -> list[str]:
    """`requirements` without those of a name that is the tree's own or of another index."""
    kept: list[str] = []
    for one in requirements:
        why = "" if " @ " in one else plan.elsewhere.get(name_of(one), "")
        if why:
            resolver.left_out[one] = why
        else:
            kept.append(one)
    return kept


def install_package(plan: Plan, uv: Uv, minor: int, version: str) -> str:
    """Install the package itself; its name. Raises `Failed`."""
    # setuptools_scm of before 2021 knows the bare variable alone.
    alone = {"SETUPTOOLS_SCM_PRETEND_VERSION": version}
    expand_keywords(CHECKOUT / plan.root, version)
    translate_cython(uv, CHECKOUT / plan.root, plan.requirements)
    try:
        done, output = build_package(uv, plan, minor, alone)
    except TookTooLong as error:
        raise Failed(f"The build of the package itself does not end: {error}") from error
    if not done:
        raise Failed(explain("The package itself could not be built", output))
    return name_in(output) or plan.name


def install_members(plan: Plan, uv: Uv, folders: Sequence[str]) -> list[str]:
    """Install the package in each of the tree's `folders`, without what it needs; their names.
    Raises `Failed`."""
    names: list[str] = []
    for member in folders:
        folder = os.path.normpath(CHECKOUT / plan.root / member)
        typed = ["--no-deps", "-e", f"./{member}"]
        done, output = uv.install(["--no-deps", "--reinstall", "-e", folder], typed=typed)
        if not done:
            raise Failed(explain(f"The package in {member} could not be built", output))
        names += filter(None, [name_in(output)])
    return names


def install_locked(plan: Plan, uv: Uv) -> None:
    """Install exactly what a lock file names, by its hashes."""
    name = f"{INCOMING}/{plan.locked}"
    if plan.uv_export:
        name = "/tmp/uv-lock.txt"  # noqa: S108 - the build container's own
        own = ["--all-packages", "--no-emit-workspace"] if plan.members else ["--no-emit-project"]
        words = ["export", "--frozen", *own, "--no-header", "--quiet"]
        words += [*plan.uv_export, "--output-file"]
        done, output = uv.run([UV, *words, name], cwd=str(CHECKOUT / plan.root))
        if not done:
            raise Failed(explain("uv.lock could not be read", output))
        uv.record([*words, Path(name).name])
    uv.latest = None  # the lock says what is installed
    typed = ["--no-deps", "-r", Path(name).name]
    # What the project takes by a path stands there as from its folder.
    folder = str(CHECKOUT / plan.root)
    done, output = uv.install(["--no-deps", "-r", name], typed=typed, cwd=folder)
    if not done:
        raise Failed(explain_lock(output))


def explain_lock(output: str) -> str:
    """Why a locked installation failed; a file with another hash is named as such."""
    changed = MISMATCH.findall(output)
    if changed:
        names = ", ".join(dict.fromkeys(changed))[:300]
        return (
            f"The index's files of {names} do not have the hashes in the lock file, so nothing "
            "from it was installed. Maintainers can update the lock file."
        )
    return explain("The packages in the lock file could not be installed", output)


def explain(what: str, output: str) -> str:
    lacking = find_lacking(output)
    if lacking:
        return (
            f"{what}: building it needs {lacking}, which the sandbox lacks. Maintainers can "
            "provide it with `dockerfile` in the configuration file."
        )
    return f"{what}: {last_line(output)}"


def tell_version(plan: Plan, earlier: Mapping[str, Any]) -> tuple[str, str]:
    """The version to tell the package, and where it comes from."""
    environ = os.environ  # noqa: TID251 - the build container's own
    given = environ.get(VERSION, "")
    if given:
        return given, environ.get("CAPUCHIN_VERSION_SOURCE", "")
    if earlier.get("version"):
        return earlier["version"], earlier["version_source"]
    found = newest_release(plan.name, plan.commit_day) if plan.name else ""
    if found:
        return found, "the last release before the commit"
    return NO_VERSION, "no tag and no release"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
