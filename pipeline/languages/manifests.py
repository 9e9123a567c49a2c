"""Reads manifests, versions and untrusted YAML into plain data."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import yaml
from packaging.version import Version

MOST_DOTS: Final = 1000
"""Of one line: the TOML reader takes quadratic time for a dotted key."""
MOST_SQUARES: Final = 100_000_000
"""The sum of the squares of the dots of all lines: that reader takes about a second for these."""
MOST_LINES: Final = 5_000
"""Of one INI file: its reader takes quadratic time for lines that it cannot read."""


def parse_toml(text: str) -> dict[str, Any]:
    """Empty for a file that is not TOML; pip will report what is wrong with it."""
    dots = [line.count(".") for line in text.split("\n")]
    if max(dots) > MOST_DOTS or sum(count * count for count in dots) > MOST_SQUARES:
        return {}
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # also a number of 5,000 digits, and nested arrays
        return {}


def parse_json(text: str) -> dict[str, Any]:
    """The object in a file; empty for a file without one."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


@lru_cache(maxsize=8)
def parse_ini(text: str) -> ConfigParser:
    """To be read only: callers share it. Empty for a file that cannot be parsed."""
    parser = ConfigParser(interpolation=None, strict=False)
    if text.count("\n") > MOST_LINES:
        return parser
    try:
        parser.read_string(text)
    except ConfigError:
        return ConfigParser(interpolation=None)
    return parser


def table(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The table at `path`; empty if it does not exist."""
    value: Any = document
    for key in path:
        if not isinstance(value, dict):
            return {}
        value = cast(dict[str, Any], value).get(key)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def strings(value: Any) -> list[str]:
    """The strings of a list; empty for any other value."""
    if not isinstance(value, list):
        return []
    return [item for item in cast(list[Any], value) if isinstance(item, str)]


def tables(value: Any) -> list[Mapping[str, Any]]:
    """The tables of a list; empty for any other value."""
    if not isinstance(value, list):
        return []
    found = cast(list[Any], value)
    return [cast(dict[str, Any], item) for item in found if isinstance(item, dict)]


def project_of(texts: Mapping[str, str]) -> dict[str, Any]:
    return parse_toml(texts.get("pyproject.toml", ""))


def distribution_name(texts: Mapping[str, str]) -> str | None:
    """The package's name, if a file states it without being run."""
    project = project_of(texts)
    stated = table(project, "project").get("name") or table(project, "tool", "poetry").get("name")
    if isinstance(stated, str):
        return stated
    for name, pattern in (
        ("PKG-INFO", r"^Name:\s*(\S+)"),
        ("setup.cfg", r"^name\s*=\s*(\S+)"),
    ):
        match = re.search(pattern, texts.get(name, ""), re.MULTILINE)
        if match:
            return match[1]
    return None


def guess_name(texts: Mapping[str, str]) -> str:
    """The package's name, also where only setup.py states it; empty without one."""
    match = re.search(r"""(?i)\bname\s*=\s*["']([\w.-]+)["']""", texts.get("setup.py", ""))
    return distribution_name(texts) or (match[1] if match else "")


def is_package(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the tree can be installed as a package."""
    if "setup.py" in names or {"project", "build-system"} & set(project):
        return True
    return "poetry" in table(project, "tool")


DESCRIBED: Final = re.compile(
    r"(?:.*?[-_/]|)(?:v|rel-?|release-?|version-?)?(\d{1,18}(?:[._]\d{1,18})*)"
    r"((?:[-._]?(?:a|b|rc|dev|post|alpha|beta)[-._]?\d*)?)-(\d{1,9})-g[0-9a-f]+"
)
"""The output of `git describe --tags --long`: a tag, how many commits ago it was, and the
commit."""
ASSIGNED: Final = re.compile(
    r"""^(?:__version__|version|VERSION)\s*(?::\s*\w+)?=\s*["']([^"'\n]+)["']""", re.MULTILINE
)
TUPLE: Final = re.compile(r"^(?:VERSION|version_info|__version_info__)\s*=\s*(\([^)\n]*\))", re.M)
HEADING: Final = re.compile(
    r"^(?:#+\s*|=+\s*)?(?:[A-Za-z][\w.-]*\s+)?(?:[Vv]ersion\s+|[Rr]elease\s+)?\[?v?"
    r"(\d+(?:\.\d+){1,3}(?:(?:\.?dev|a|b|rc)\d*)?)\]?(?=$|[\s(:,/])",
    re.MULTILINE,
)
VERSION_FILES: Final = re.compile(
    r"VERSION(\.txt)?|version\.txt|(?:(?:src|lib)/)?[A-Za-z_]\w*/(__init__|_?version|__version__|__about__|__pkginfo__)\.py"
)
CHANGELOGS: Final = re.compile(
    r"(?:docs?/(?:source/|src/|en/)?)?"
    r"(?:CHANGES|CHANGELOG|HISTORY|NEWS|RELEASES?|changes|changelog|history|news|releases?"
    r"|(?:[Ww]hats|RELEASE|[Rr]elease)[-_]?(?:new|NOTES|notes))(?:\.(?:md|rst|txt))?"
)
MAX_TEXT: Final = 64 * 1024


def find_version(
    name: str | None, texts: Mapping[str, str], described: str = ""
) -> tuple[str, str]:
    """Find the version and its source; both are empty if neither files nor tags state one.

    `described` is the output of `git describe --tags --long`. The index knows releases too, but
    only the installer can ask it.
    """
    for version, source in candidates(name, texts, described):
        try:
            return str(Version(version)), source
        except ValueError:  # `InvalidVersion`, or more digits than Python converts
            continue
    return "", ""


def candidates(
    name: str | None, texts: Mapping[str, str], described: str
) -> Iterator[tuple[str, str]]:
    metadata = re.search(r"^Version:\s*(\S+)\s*$", texts.get("PKG-INFO", ""), re.MULTILINE)
    stated = table(project_of(texts), "project").get("version")
    configured = parse_ini(texts.get("setup.cfg", "")).get("metadata", "version", fallback="")
    yield from (
        (metadata[1] if metadata else "", "PKG-INFO"),
        (next_version(described), "git's tags"),
        (stated if isinstance(stated, str) else "", "pyproject.toml"),
        (configured if ":" not in configured else "", "setup.cfg"),
    )
    own = re.sub(r"[-.]", "_", name or "").lower()
    for path in sorted(texts, key=lambda path: (own not in path.lower().split("/"), path)):
        if VERSION_FILES.fullmatch(path):
            yield version_in(path, texts[path][:MAX_TEXT]), path
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        heading = CHANGELOGS.fullmatch(path) and HEADING.search(texts[path][:MAX_TEXT])
        yield heading[1] if heading else "", path


def next_version(described: str) -> str:
    """The version after `git describe`: the tag's own, or a development version of the next one.

    The guess is setuptools_scm's: the last number of the tag plus one.
    """
    match = DESCRIBED.fullmatch(described)
    if not match:
        return ""
    base, tail, commits = match[1].replace("_", "."), match[2], int(match[3])
    if not commits:
        return base + tail
    if tail:
        return base + tail if "dev" in tail else f"{base}{tail}.post1.dev{commits}"
    *head, last = base.split(".")
    return ".".join([*head, str(int(last) + 1)]) + f".dev{commits}"


def version_in(path: str, text: str) -> str:
    """The version that a file assigns or consists of; empty without one."""
    if not path.endswith(".py"):
        return text.strip() if len(text) < 64 else ""
    match = ASSIGNED.search(text)
    if match:
        return match[1]
    numbers = TUPLE.search(text)
    try:
        value = ast.literal_eval(numbers[1]) if numbers else ()
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    whole = [part for part in value if isinstance(part, int)][:3]
    return ".".join(map(str, whole)) if len(whole) > 1 else ""


DEPENDENCY_FILES = re.compile(
    r"pyproject\.toml|setup\.py|setup\.cfg|PKG-INFO|\.python-version|tox\.(ini|toml)|noxfile\.py"
    r"|hatch\.toml|(uv|poetry|pdm)\.lock|(tests?/)?[^/]*(requirements|constraints)[^/]*\.(txt|in)"
    r"|requirements/[^/]+\.(txt|in)|tests?/requirements/[^/]+\.txt"
    r"|(ci/)?(requirements/|requirements-)?(py3\d+|environment|test|environment-dev)\.ya?ml"
    r"|package(-lock)?\.json|npm-shrinkwrap\.json|pnpm-(lock|workspace)\.yaml|yarn\.lock"
    r"|\.yarnrc(\.yml)?|\.npmrc|\.nvmrc|\.node-version"
    r"|\.devcontainer(/[\w.-]+)?/devcontainer\.json|\.devcontainer\.json|\.readthedocs\.ya?ml"
)
VERSION_TEXTS = re.compile(f"{VERSION_FILES.pattern}|{CHANGELOGS.pattern}|PKG-INFO")


@dataclass(frozen=True)
class Manifests:
    """The contents of a tree's files, without running any of them."""

    names: tuple[str, ...]
    """The paths of all files."""
    texts: Mapping[str, str]
    """The texts of files about dependencies, versions or CI."""
    too_large: tuple[str, ...] = ()
    """Files that are too large to read."""

    @property
    def inputs(self) -> str:
        """A digest of the files that decide which dependencies are installed."""
        telling = sorted(item for item in self.texts.items() if not is_version_only(item[0]))
        return hashlib.sha256(repr(telling).encode()).hexdigest()


def is_version_only(path: str) -> bool:
    return bool(VERSION_TEXTS.fullmatch(path)) and not DEPENDENCY_FILES.fullmatch(path)


MAX_NODES: Final = 20_000
"""Values of one document that are visited, aliases counted each time."""
MAX_FLOW_DEPTH: Final = 100
"""Brackets in brackets. For each token, PyYAML looks at every bracket that is open."""
MERGE: Final = "<<"


class _PlainLoader(yaml.SafeLoader):
    """Reads every scalar as text and keeps merges in their written form."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - its name
        """As PyYAML's own, but not without end."""
        if self.flow_level >= MAX_FLOW_DEPTH:
            raise yaml.YAMLError
        super().fetch_flow_collection_start(TokenClass)

    def flatten_mapping(self, node: Any) -> None:  # noqa: ARG002 - merges would multiply
        return


def _construct_plain(loader: _PlainLoader, suffix: str, node: Any) -> Any:  # noqa: ARG001
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value


_PlainLoader.add_multi_constructor("", _construct_plain)  # pyright: ignore[reportUnknownMemberType]
_PlainLoader.yaml_implicit_resolvers = {}


def parse_yaml(text: str) -> dict[str, Any]:
    """The mapping of a document, scalars as text; empty for another document or a malformed one.

    The caller limits the length of `text`. Aliases share their value; visit them with
    `walk_scalars`.
    """
    try:
        value: Any = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def entries(value: Any) -> Mapping[str, Any]:
    """The entries of a mapping, including merged ones; empty for any other value."""
    if not isinstance(value, dict):
        return {}
    own = cast(dict[str, Any], value)
    merged = own.get(MERGE)
    return {**cast(dict[str, Any], merged), **own} if isinstance(merged, dict) else own


def walk_scalars(value: Any) -> Iterator[str]:
    """The texts in a value, in order, up to `MAX_NODES` visited values."""
    waiting: list[Any] = [value]
    for _ in range(MAX_NODES):
        if not waiting:
            return
        one: Any = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting.extend(reversed(cast(list[Any], one)[:MAX_NODES]))
        elif isinstance(one, dict):
            waiting.extend(reversed(list(cast(dict[str, Any], one).values())[:MAX_NODES]))
