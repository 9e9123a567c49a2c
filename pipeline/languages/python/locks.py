"""Lock files but uv's into requirements with hashes, which any index can serve.

All that they name for this Python is installed, but for groups and extras that only a request
brings: what was locked together fits together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from packaging.markers import InvalidMarker, Marker
from packaging.specifiers import SpecifierSet

from pipeline.languages.manifests import Manifests, parse_json, parse_toml, strings, table, tables
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.metadata import is_package, project_of
from pipeline.languages.python.origins import list_stated
from pipeline.languages.python.requirements import TEST_NAMES, extra_names, first_of, group_names
from sandbox.guest.installer.requirements import is_public_index, name_of, normalise_name
from sandbox.layout import CHECKOUT

HASH: Final = re.compile(r"sha(256|384|512):[0-9a-f]+")
NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
VERSION: Final = re.compile(r"[\w.!+-]+")
ADDRESS: Final = re.compile(r"[\w./:@~%+?&=#-]+")
REQUIREMENTS_FILE: Final = "locked.txt"
Package = Mapping[str, Any]


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
    package = is_package(project, manifests.names) and not any(
        table(project, "tool", *tool).get(key) is False
        for *tool, key in (("uv", "package"), ("poetry", "package-mode"), ("pdm", "distribution"))
    )
    if path == "uv.lock":
        chosen = [*(("--extra", extra) if extra else ()), *(("--group", group) if group else ())]
        return Lock(path, uv_export=("--no-annotate", *chosen), package=package)
    wanted = {"main", "default", "dev", group, extra} | {
        name
        for name, stated in table(project, "tool", "poetry", "group").items()
        if not (isinstance(stated, dict) and cast(dict[str, Any], stated).get("optional"))
    }
    read = {"poetry.lock": list_poetry, "pdm.lock": list_pdm, "Pipfile.lock": list_pipfile}
    read["pylock.toml"] = list_pylock
    lock = parse_json(texts[path]) if path == "Pipfile.lock" else parse_toml(texts[path])
    packages = list(read[path](lock))
    foreign = list_foreign(packages, minor) - list_direct(project)
    lines: dict[str, str] = {}
    for one in packages:
        groups, requirement, hashes = (
            strings(one.get("groups")),
            requirement_of(one),
            hashes_of(one),
        )
        chosen = not groups or not wanted.isdisjoint(groups)
        # Without hashes, a package of another index may be a stranger's on this one.
        known = hashes or is_public_index(str(one["index"]))
        name = name_of(requirement)
        if chosen and known and requirement and name not in foreign and fits(one, minor, extra):
            lines[name] = " ".join([requirement, *(f"--hash={value}" for value in hashes)])
    requirements = "".join(f"{line}\n" for line in lines.values())
    return Lock(path, requirements, package=package) if lines else None


PYPI: Final = "https://pypi.org/simple"


def list_poetry(lock: Mapping[str, Any]) -> Iterator[Package]:
    """The packages of poetry's lock; older ones list the files elsewhere."""
    hashes = table(lock, "metadata", "files")
    for one in tables(lock.get("package")):
        source = table(one, "source")
        kind, url = source.get("type"), source.get("url")
        files = tables(one.get("files")) or tables(hashes.get(str(one.get("name"))))
        yield {
            **one,
            "files": files,
            "index": url if kind == "legacy" else PYPI,
            "git": url if kind == "git" else None,
            "revision": source.get("resolved_reference") or source.get("reference"),
            "url": f"file://{CHECKOUT}/{url}" if kind in ("directory", "file") else url,
            "is_direct": kind in ("git", "url", "directory", "file"),
            "subdirectory": source.get("subdirectory"),
        }


def list_pdm(lock: Mapping[str, Any]) -> Iterator[Package]:
    """https://pdm-project.org/en/latest/usage/lockfile/"""
    for one in tables(lock.get("package")):
        if "path" not in one:
            yield {**one, "index": PYPI, "markers": one.get("marker"), "is_direct": "url" in one}


def list_pipfile(lock: Mapping[str, Any]) -> Iterator[Package]:
    """With those for development; https://github.com/pypa/pipfile#example-pipfilelock"""
    sources = tables(table(lock, "_meta").get("sources"))
    urls = {one.get("name"): str(one.get("url")) for one in sources}
    for name, stated in {**table(lock, "develop"), **table(lock, "default")}.items():
        one = table({"": stated}, "")
        yield {
            **one,
            "name": name,
            "version": str(one.get("version", "")).lstrip("="),
            "files": [{"hash": value} for value in strings(one.get("hashes"))],
            "index": urls.get(one.get("index"), PYPI),
            "revision": one.get("ref"),
        }


def list_pylock(lock: Mapping[str, Any]) -> Iterator[Package]:
    """With all groups and extras; https://packaging.python.org/en/latest/specifications/pylock-toml/"""
    for one in tables(lock.get("packages")):
        marker, git = one.get("marker"), table(one, "vcs")
        files = [*tables(one.get("wheels")), table(one, "sdist"), table(one, "archive")]
        hashes = (table(file, "hashes").get("sha256") for file in files)
        yield {
            "name": one.get("name"),
            "version": one.get("version"),
            "markers": None if re.search(r"extras|dependency_groups", str(marker)) else marker,
            "files": [{"hash": f"sha256:{value}"} for value in hashes],
            "index": one.get("index", PYPI),
            "git": git.get("url"),
            "revision": git.get("commit-id"),
        }


def list_foreign(packages: Sequence[Package], minor: int) -> set[str]:
    """What others ask for on other systems and Pythons alone: older locks say that only there."""
    asked: dict[str, bool] = {}
    for package in packages:
        for name, stated in table(package, "dependencies").items():
            for form in stated if isinstance(stated, list) else [stated]:  # pyright: ignore[reportUnknownVariableType]
                marker = table({"": form}, "").get("markers")
                here = "extra" in str(marker) or holds(marker, minor, "")
                asked[normalise_name(name)] = asked.get(normalise_name(name), False) or here
    return {name for name, here in asked.items() if not here}


def list_direct(project: Mapping[str, Any]) -> set[str]:
    """The names of what the project itself asks for."""
    stated = {normalise_name(name) for name, _ in list_stated(project)}
    return stated | set(map(name_of, strings(table(project, "project").get("dependencies"))))


def fits(package: Package, minor: int, extra: str) -> bool:
    """Whether a package is for this Python and this system, and not for other extras alone."""
    markers: Any = package.get("markers")
    by_group = cast(dict[str, Any], markers).values() if isinstance(markers, dict) else [markers]
    if not any(holds(marker, minor, extra) for marker in by_group or [None]):
        return False
    if package.get("optional") and not extra:
        return False
    bound = package.get("python-versions")
    if not isinstance(bound, str) or bound == "*":
        return True
    try:
        return any(SpecifierSet(one).contains(f"3.{minor}.30") for one in bound.split("||"))
    except ValueError:  # `InvalidSpecifier`, or more digits than Python converts
        return True


def holds(marker: Any, minor: int, extra: str) -> bool:
    """Whether a marker of PEP 508 holds in the sandbox; an unparsable marker holds."""
    if not isinstance(marker, str) or not marker.strip():
        return True
    context = {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.0",
        "implementation_version": f"3.{minor}.0",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": extra,
    }
    try:
        return Marker(marker).evaluate(context)
    except (InvalidMarker, ValueError, KeyError, RecursionError):
        return True


def requirement_of(package: Package) -> str:
    """The line for one package; empty if it cannot be expressed as a line."""
    name, version, git = package.get("name"), package.get("version"), package.get("git")
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        return ""
    below = package.get("subdirectory")
    tail = f"#subdirectory={below}" if isinstance(below, str) and ADDRESS.fullmatch(below) else ""
    url = git or (package.get("url") if package.get("is_direct") else None)
    if url:
        commit = str(package.get("revision") or "HEAD")
        if not (isinstance(url, str) and ADDRESS.fullmatch(url) and VERSION.fullmatch(commit)):
            return ""
        return f"{name} @ git+{url}@{commit}{tail}" if git else f"{name} @ {url}{tail}"
    return f"{name}=={version}" if isinstance(version, str) and VERSION.fullmatch(version) else ""


def hashes_of(package: Package) -> list[str]:
    stated = () if package.get("git") else tables(package.get("files"))
    return [*filter(HASH.fullmatch, (str(file.get("hash")) for file in stated))]
