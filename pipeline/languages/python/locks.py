"""Lock files, poetry's too, into requirements with hashes.

poetry itself uses PyPI's own JSON interface, which mirrors lack. The choice of packages follows
`poetry export`: https://github.com/python-poetry/poetry-plugin-export
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from packaging.markers import InvalidMarker, Marker
from packaging.specifiers import SpecifierSet

from pipeline.languages.manifests import Manifests, parse_json, parse_toml, strings, table, tables
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.metadata import is_package, project_of
from pipeline.languages.python.requirements import (
    TEST_NAMES,
    extra_names,
    first_of,
    group_names,
)
from sandbox.guest.installer.requirements import is_public_index
from sandbox.layout import CHECKOUT

HASH: Final = re.compile(r"sha(256|384|512):[0-9a-f]+")
NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
VERSION: Final = re.compile(r"[\w.!+-]+")
ADDRESS: Final = re.compile(r"[\w./:@~%+?&=#-]+")
MAX_STEPS: Final = 20_000
Edge: TypeAlias = tuple[str, tuple[str, ...]]
"""The normalised name of a dependency, and its requested extras."""


def poetry_requirements(
    lock: Mapping[str, Any],
    project: Mapping[str, Any],
    *,
    groups: Sequence[str],
    extras: Sequence[str],
    minor: int,
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The requirements that poetry locked for the package, `groups` and `extras` on Python
    3.`minor`.

    Each requirement comes with the permitted hashes of its files.
    """
    context = marker_context(minor)
    packages = [package for package in tables(lock.get("package")) if fits(package, context)]
    known: dict[str, list[Mapping[str, Any]]] = {}
    for package in packages:
        known.setdefault(normalise(package.get("name")), []).append(package)
    roots = list(root_dependencies(lock, project, groups, extras, context))
    hashes = table(lock, "metadata", "files")
    for name in sorted(reachable(roots, known, context)):
        for package in known[name]:
            line, stated = requirement_of(package), tuple(hashes_of(package, hashes))
            source = table(package, "source")
            # Without hashes, a package of another index may be a stranger's on this one.
            other = source.get("type") == "legacy" and not is_public_index(str(source.get("url")))
            if line and (stated or not other):
                yield line, stated


def marker_context(minor: int) -> dict[str, str]:
    """The variables of environment markers in the sandbox; PEP 508."""
    return {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.0",
        "implementation_version": f"3.{minor}.0",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": "",
    }


def normalise(name: Any) -> str:
    return re.sub(r"[-_.]+", "-", name).lower() if isinstance(name, str) else ""


def holds(marker: Any, context: Mapping[str, str], extras: Iterable[str] = ("",)) -> bool:
    """Whether a marker holds with one of `extras`; an unparsable marker holds."""
    if not isinstance(marker, str) or not marker.strip():
        return True
    try:
        parsed = Marker(marker)
        return any(parsed.evaluate({**context, "extra": extra}) for extra in extras)
    except (InvalidMarker, ValueError, KeyError, RecursionError):
        return True


def fits(package: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    """Whether a package is for this Python and this system."""
    bound = package.get("python-versions")
    markers = package.get("markers")
    if isinstance(markers, dict):  # by group
        by_group = cast(dict[str, Any], markers).values()
        if by_group and not any(holds(marker, context) for marker in by_group):
            return False
    elif isinstance(markers, str) and "extra" not in markers and not holds(markers, context):
        return False
    if isinstance(bound, str) and bound != "*":
        try:
            return any(
                SpecifierSet(part.strip()).contains(f"{context['python_version']}.30")
                for part in bound.split("||")
            )
        except ValueError:  # `InvalidSpecifier`, or more digits than Python converts
            return True
    return True


def root_dependencies(
    lock: Mapping[str, Any],
    project: Mapping[str, Any],
    groups: Sequence[str],
    extras: Sequence[str],
    context: Mapping[str, str],
) -> Iterator[Edge]:
    """The names and extras of the project's direct dependencies."""
    poetry = table(project, "tool", "poetry")
    chosen = {normalise(name) for extra in extras for name in extra_packages(lock, poetry, extra)}
    for name, stated in table(poetry, "dependencies").items():
        if normalise(name) != "python" and (not is_optional(stated) or normalise(name) in chosen):
            yield from edges(name, stated, context)
    listed = strings(table(project, "project").get("dependencies"))
    for extra in extras:
        listed += strings(table(project, "project", "optional-dependencies").get(extra))
    named = [name for name, group in table(poetry, "group").items() if not is_optional(group)]
    for group in sorted({*named, *groups}):
        for name, stated in table(poetry, "group", group, "dependencies").items():
            yield from edges(name, stated, context)
        listed += strings(table(project, "dependency-groups").get(group))
    for name, stated in table(poetry, "dev-dependencies").items():
        yield from edges(name, stated, context)
    for line in listed:
        yield from standard_edge(line, context)


def is_optional(stated: Any) -> bool:
    return isinstance(stated, dict) and bool(cast(dict[str, Any], stated).get("optional"))


def extra_packages(lock: Mapping[str, Any], poetry: Mapping[str, Any], extra: str) -> list[str]:
    listed = strings(table(lock, "extras").get(extra)) or strings(
        table(poetry, "extras").get(extra)
    )
    return [re.split(r"[\s(<>=!~;\[]", name)[0] for name in listed]


def standard_edge(line: str, context: Mapping[str, str]) -> Iterator[Edge]:
    requirement, _, marker = line.partition(";")
    match = re.match(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?", requirement)
    if match and holds(marker, context):
        extras = tuple(one.strip() for one in (match[2] or "").split(",") if one.strip())
        yield normalise(match[1]), extras


def edges(
    name: str, stated: Any, context: Mapping[str, str], extras: Iterable[str] = ("",)
) -> Iterator[Edge]:
    """One dependency, in any of poetry's three forms: a bound, a table, or a list of tables."""
    forms = tables(stated) if isinstance(stated, list) else [stated]
    for form in forms:
        if not isinstance(form, dict):
            yield normalise(name), ()
            continue
        one = cast(dict[str, Any], form)
        if holds(one.get("markers"), context, extras):
            yield normalise(name), tuple(strings(one.get("extras")))


def reachable(
    roots: Sequence[Edge],
    known: Mapping[str, Sequence[Mapping[str, Any]]],
    context: Mapping[str, str],
) -> set[str]:
    """The names of all packages reachable from the roots."""
    waiting, seen = list(roots), set[Edge]()
    while waiting and len(seen) < MAX_STEPS:
        name, extras = step = waiting.pop()
        if step in seen or name not in known:
            continue
        seen.add(step)
        for package in known[name]:
            asked = {
                normalise(re.split(r"[\s(<>=!~;\[]", one)[0])
                for extra in extras
                for one in strings(table(package, "extras").get(extra))
            }
            for other, stated in table(package, "dependencies").items():
                if not is_optional(stated) or normalise(other) in asked:
                    waiting += edges(other, stated, context, ("", *extras))
    return {name for name, _ in seen}


def requirement_of(package: Mapping[str, Any]) -> str:
    """The line for one package; empty if it cannot be expressed as a line."""
    name, version = package.get("name"), package.get("version")
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        return ""
    if not (isinstance(version, str) and VERSION.fullmatch(version)):
        return ""
    source = table(package, "source")
    kind, url = source.get("type"), source.get("url")
    if kind in {"git", "url", "directory", "file"}:
        if not (isinstance(url, str) and ADDRESS.fullmatch(url)):
            return ""
        below = source.get("subdirectory")
        tail = (
            f"#subdirectory={below}" if isinstance(below, str) and ADDRESS.fullmatch(below) else ""
        )
        if kind == "git":
            commit = source.get("resolved_reference") or source.get("reference") or "HEAD"
            return f"{name} @ git+{url}@{commit}{tail}" if VERSION.fullmatch(str(commit)) else ""
        return f"{name} @ {url}{tail}" if kind == "url" else f"{name} @ file://{CHECKOUT}/{url}"
    return f"{name}=={version}"


def hashes_of(package: Mapping[str, Any], files: Mapping[str, Any]) -> Iterator[str]:
    """The hashes of a package's files, which older locks list separately."""
    listed = tables(package.get("files")) or tables(files.get(str(package.get("name"))))
    if table(package, "source").get("type") in {"git", "directory"}:
        return
    for file in listed:
        stated = file.get("hash")
        if isinstance(stated, str) and HASH.fullmatch(stated):
            yield stated


REQUIREMENTS_FILE: Final = "locked.txt"
SAFE: Final = re.compile(r"[^\r\n]*")


@dataclass(frozen=True)
class Lock:
    path: str
    requirements: str = ""
    """A complete requirement file."""
    uv_export: tuple[str, ...] = ()
    """Arguments of `uv export`, for uv.lock."""
    package: bool = True
    """Whether the package itself is installed too."""


def read_lock(manifests: Manifests, minor: int) -> Lock | None:
    """The tree's first lock file, with the group and the extra for tests, for Python 3.`minor`.

    None if there is no lock file, or only one that is too large to read.
    """
    texts, project = manifests.texts, project_of(manifests.texts)
    path = next((name for name in FACTS.locks if name in texts), "")
    if not path or not (project or path in ("pylock.toml", "Pipfile.lock")):
        return None
    extra, group = (
        next(iter(first_of((*TEST_NAMES, "dev"), known)), "")
        for known in (extra_names(project, texts), group_names(project))
    )
    package = is_package(project, manifests.names)
    if path == "uv.lock":
        chosen = [*(("--extra", extra) if extra else ()), *(("--group", group) if group else ())]
        package = package and table(project, "tool", "uv").get("package") is not False
        return Lock(path, uv_export=("--no-annotate", *chosen), package=package)
    lock = parse_json(texts[path]) if path == "Pipfile.lock" else parse_toml(texts[path])
    groups, extras = [group] if group else [], [extra] if extra else []
    if path == "poetry.lock":
        found = poetry_requirements(lock, project, groups=groups, extras=extras, minor=minor)
        package = package and is_package_mode(project)
    elif path == "Pipfile.lock":
        found = pipfile_requirements(lock)
    elif path == "pylock.toml":
        found = pylock_requirements(lock)
    else:
        found = pdm_requirements(lock, {"default", "dev", *groups, *extras})
        package = package and bool(table(project, "tool", "pdm").get("distribution", True))
    lines = [
        " ".join([requirement, *(f"--hash={value}" for value in hashes)])
        for requirement, hashes in found
        if SAFE.fullmatch(requirement)
    ]
    return Lock(path, "".join(f"{line}\n" for line in lines), package=package) if lines else None


def pdm_requirements(
    lock: Mapping[str, Any], groups: set[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The requirements that pdm locked for `groups`, each with the permitted hashes of its files.

    https://pdm-project.org/en/latest/usage/lockfile/
    """
    for package in tables(lock.get("package")):
        name, version, url = (package.get(key) for key in ("name", "version", "url"))
        wanted = strings(package.get("groups"))
        if not isinstance(name, str) or "path" in package or (wanted and not groups & {*wanted}):
            continue
        marker = package.get("marker")
        tail = f" ; {marker}" if isinstance(marker, str) else ""
        if "git" in package:
            yield f"{name} @ git+{package['git']}@{package.get('revision', 'HEAD')}{tail}", ()
            continue
        stated = [file.get("hash") for file in tables(package.get("files"))]
        hashes = tuple(h for h in stated if isinstance(h, str) and HASH.fullmatch(h))
        source = f"{name} @ {url}" if isinstance(url, str) else f"{name}=={version}"
        yield source + tail, hashes


def pipfile_requirements(lock: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The requirements of Pipfile.lock, those for development among them.

    https://github.com/pypa/pipfile#example-pipfilelock
    """
    sources = {
        one.get("name"): one.get("url") for one in tables(table(lock, "_meta").get("sources"))
    }
    for name, stated in {**table(lock, "develop"), **table(lock, "default")}.items():
        one = table({"": stated}, "")
        version, hashes = (
            one.get("version"),
            tuple(filter(HASH.fullmatch, strings(one.get("hashes")))),
        )
        tail = f" ; {one['markers']}" if isinstance(one.get("markers"), str) else ""
        public = is_public_index(str(sources.get(one.get("index"), "https://pypi.org/simple")))
        if isinstance(one.get("git"), str):
            yield f"{name} @ git+{one['git']}@{one.get('ref', 'HEAD')}{tail}", ()
        elif (
            isinstance(version, str)
            and VERSION.fullmatch(version.lstrip("="))
            and (hashes or public)
        ):
            yield f"{name}=={version.lstrip('=')}{tail}", hashes


def pylock_requirements(lock: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The requirements of a pylock.toml, all groups and extras among them.

    https://packaging.python.org/en/latest/specifications/pylock-toml/
    """
    for one in tables(lock.get("packages")):
        name, version, marker = (one.get(key) for key in ("name", "version", "marker"))
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            continue
        of_group = not isinstance(marker, str) or re.search(r"extras|dependency_groups", marker)
        tail = "" if of_group else f" ; {marker}"
        files = [*tables(one.get("wheels")), table(one, "sdist"), table(one, "archive")]
        stated = [f"sha256:{table(file, 'hashes').get('sha256')}" for file in files]
        hashes = tuple(filter(HASH.fullmatch, stated))
        git = table(one, "vcs")
        if isinstance(git.get("url"), str):
            yield f"{name} @ git+{git['url']}@{git.get('commit-id', 'HEAD')}{tail}", ()
        elif (
            isinstance(version, str)
            and VERSION.fullmatch(version)
            and (hashes or is_public_index(str(one.get("index", "https://pypi.org/simple"))))
        ):
            yield f"{name}=={version}{tail}", hashes


def is_package_mode(project: Mapping[str, Any]) -> bool:
    """False if poetry is configured to install dependencies only."""
    return table(project, "tool", "poetry").get("package-mode") is not False
