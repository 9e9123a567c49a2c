"""Parses untrusted YAML into plain data: no tags, and no growth through aliases or merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import yaml

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
