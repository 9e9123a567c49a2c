"""The steps that install a Node repository, derived from its files.

Node itself comes from the package index, in the version that the repository requests. npm, pnpm and
yarn install the contents of the lock file and run lifecycle scripts, in the build container only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.languages.manifests import CI_FILE, parse_json, table
from sandbox.layout import SYSTEM_PYTHON

MAJORS: Final = (22, 24, 20)
"""The versions of Node that are available, the usual one first."""
CHOOSE: Final = f"{SYSTEM_PYTHON} -I /opt/capuchin/choose_node.py"
PREFIX: Final = "/opt/env/node-tools"
INSTALL_TOOL: Final = f"npm install --prefix {PREFIX} --no-save"
MANIFESTS: Final = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "Pipfile")
"""A repository with one of these is a Python repository, even if Node builds its pages."""
EXACT: Final = re.compile(r"(npm|pnpm|yarn)@(\d+(?:\.\d+){0,2}(?:-[\w.]+)?)(?:\+[\w.]+)?")


def is_node(names: Iterable[str]) -> bool:
    there = set(names)
    requirements = any(name.endswith("requirements.txt") for name in there)
    return "package.json" in there and not there & set(MANIFESTS) and not requirements


def node_steps(names: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """Lines for a shell, in order."""
    package = parse_json(texts.get("package.json", ""))
    yield node_step(package, texts)
    name, version = package_manager(package, names, texts)
    if version:
        # This package ends with yarn 1; later versions have another name.
        source = "@yarnpkg/cli-dist" if name == "yarn" and not version.startswith("1") else name
        fetched = shlex.quote(f"{source}@{version}")
        yield f"{INSTALL_TOOL} {fetched} && ln -sf {PREFIX}/node_modules/.bin/* /opt/env/bin/"
    yield install_step(name, version, names)


def install_step(name: str, version: str, names: Sequence[str]) -> str:
    if name == "pnpm":
        return "pnpm install" + (" --frozen-lockfile" if "pnpm-lock.yaml" in names else "")
    if name == "yarn":
        if "yarn.lock" not in names:
            return "yarn install"
        old = version.startswith("1") and ".yarnrc.yml" not in names
        return "yarn install " + ("--frozen-lockfile" if old else "--immutable")
    locked = "package-lock.json" in names or "npm-shrinkwrap.json" in names
    return "npm ci" if locked else "npm install --no-package-lock"


def package_manager(
    package: Mapping[str, Any], names: Sequence[str], texts: Mapping[str, str]
) -> tuple[str, str]:
    """The package manager and its version; empty for the npm that comes with Node."""
    stated = package.get("packageManager")
    match = EXACT.fullmatch(stated) if isinstance(stated, str) else None
    if match:
        return match[1], match[2]
    if "pnpm-lock.yaml" in names:
        return "pnpm", pnpm_version(texts.get("pnpm-lock.yaml", ""))
    if "yarn.lock" in names:
        modern = "__metadata:" in texts.get("yarn.lock", "")
        # Yarn 1 delegates to the release in the repository.
        return "yarn", "4" if modern and "yarnPath:" not in texts.get(".yarnrc.yml", "") else "1"
    return "npm", ""


def pnpm_version(lock: str) -> str:
    """The version of pnpm that writes this format of lock files."""
    match = re.search(r"^lockfileVersion:\s*['\"]?(\d+)", lock, re.MULTILINE)
    return {"5": "7", "6": "8"}.get(match[1] if match else "", "10")


def node_step(package: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """The shell line that installs Node."""
    version_range, where = next(version_requests(package, texts), ("", ""))
    fits = [major for major in MAJORS if not version_range or is_in_range(version_range, major)]
    exact = re.fullmatch(r"v?(\d{1,9})(\.[\dx*]+)*", version_range)
    if not fits and exact:
        fits = [int(exact[1])]  # only a Dockerfile can provide it
    accepted = ",".join(str(major) for major in fits)
    options = ["--accepted", accepted, "--asked", version_range, "--where", where]
    return f"{CHOOSE} {shlex.join(options)}"


def version_requests(
    package: Mapping[str, Any], texts: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The requested versions of Node, each with the place that requests it."""
    for name in (".nvmrc", ".node-version"):
        pinned = texts.get(name, "").strip()
        if re.fullmatch(r"v?\d[\w.]*", pinned):
            yield pinned, name
    if listed := re.search(r"^nodejs[ \t]+(\d[\w.]*)", texts.get(".tool-versions", ""), re.M):
        yield listed[1], ".tool-versions"
    engine = table(package, "engines").get("node")
    if isinstance(engine, str) and engine.strip():
        yield engine.strip(), "engines in package.json"
    for path in sorted(filter(CI_FILE.fullmatch, texts)):
        # The newest of a matrix that can be had here: the others are kept working.
        stated = re.findall(
            r"\bnode(?:-version)?s?:[ \t]{0,9}(['\"\[\d][^#\n]{0,200})", texts[path]
        )
        majors = [int(n) for text in stated for n in re.findall(r"(?<![\w.])(\d{2})\b", text)]
        if there := set(majors) & set(MAJORS):
            yield str(max(there)), path


def is_in_range(version_range: str, major: int) -> bool:
    """Whether some release of `major` is in a range of npm; an unparsable range accepts all.

    https://github.com/npm/node-semver#ranges
    """
    version_range = version_range[:500]
    version_range = re.sub(r"v?(\d[\d.]*)\s+-\s+v?(\d)", r">=\1 <=\2", version_range)
    return any(
        all(is_within_bound(sign, int(low), major) for sign, low in bounds)
        for part in version_range.split("||")
        for bounds in [re.findall(r"(>=|<=|>|<|\^|~|=)?\s*v?(\d+)(?:\.[\dx*]+)*", part)]
    )


def is_within_bound(sign: str, bound: int, major: int) -> bool:
    if sign in {">=", ">"}:
        return major >= bound
    if sign == "<":
        return major < bound
    if sign == "<=":
        return major <= bound
    return major == bound
