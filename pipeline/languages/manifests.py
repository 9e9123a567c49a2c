"""Reads untrusted manifests (TOML, JSON, INI, YAML) into plain data."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import yaml

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


@dataclass(frozen=True)
class Manifests:
    """The contents of a tree's files, without running any of them."""

    names: tuple[str, ...]
    """The paths of all files."""
    texts: Mapping[str, str]
    """The texts of files about dependencies, versions or CI."""
    too_large: tuple[str, ...] = ()
    """Files that are too large to read."""
    root: str = ""
    """The project's folder, where the maintainers or the issue name one."""
    language: str = ""
    """The project's language, where the maintainers name one."""
    inputs: str = ""
    """A digest of the files that decide which dependencies are installed."""


CI_FILE: Final = re.compile(
    r"\.github/actions/(?:[\w-]+/){1,3}action\.ya?ml|"
    r"\.travis\.yml|\.github/workflows/[^/]+\.ya?ml|azure-pipelines\.yml|\.circleci/config\.yml"
    r"|\.gitlab-ci\.yml|\.readthedocs\.ya?ml|appveyor\.yml|ci/[^/]*\.yml"
)
MAX_NODES: Final = 20_000
"""Values of one document that are visited, aliases counted each time."""


class _PlainLoader(yaml.SafeLoader):
    """Reads every scalar as text and keeps merges in their written form."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - its name
        """As PyYAML's own, up to a depth: for each token, it looks at every open bracket."""
        if self.flow_level >= 100:
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


@lru_cache(maxsize=32)
def parse_yaml(text: str) -> dict[str, Any]:
    """The mapping of a document, scalars as text; empty for another document or a malformed one. To
    be read only: callers share it.

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
    merged = own.get("<<")
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
