"""The schema of the settings, and what may stand for one in a sentence.

The same sentence is in every message and, by `errorMessage`, in an editor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

Node = dict[str, Any]
"""A JSON Schema, or a part of one."""
_WORDS: Final = {"boolean": ["true", "false"], "string": ["text"]}


def complete_schema(found: Node) -> Node:
    """The schema that pydantic made, for an editor.

    References are inlined, a key without a value is permitted (it means the default), and every
    part has an `errorMessage`.
    """
    shared = found.pop("$defs", {})
    _complete(found, shared)
    return found


def find_node(root: Node, path: Sequence[int | str]) -> Node:
    """The part of a completed schema at `path`, or the nearest part above it."""
    node = root
    for part in path:
        below: Node = node if isinstance(part, int) else node.get("properties", {})
        found: Node | None = below.get("items" if isinstance(part, int) else part)
        if found is None:
            return node
        node = found
    return node


def find_homes(root: Node) -> Mapping[str, str]:
    """The settings that are not at the top, such as `run`, and the key that they stand below."""
    homes: dict[str, str] = {}
    for home, node in root["properties"].items():
        below = [*node.get("properties", {}), *node.get("items", {}).get("properties", {})]
        homes |= {name: home for name in below if name not in root["properties"]}
    return homes


def describe_expected(node: Node) -> str:
    """The sentence about what `node` accepts."""
    if "errorMessage" in node:
        return str(node["errorMessage"])
    if "properties" in node:
        names = _join([f'"{name}"' for name in node["properties"]], "and")
        return f"Write its settings on lines of their own, indented: {names}."
    return f"Write {_join(_list_alternatives(node), 'or')}."


def _complete(node: Node, shared: Mapping[str, Node]) -> None:
    for name, given in node.get("properties", {}).items():
        child = _inline(given, shared)
        _complete(child, shared)
        _merge_unions(child)
        child["errorMessage"] = describe_expected(child)
        _permit_null(child)
        node["properties"][name] = child
    if "items" in node:
        node["items"] = _inline(node["items"], shared)
        _complete(node["items"], shared)
        node["items"]["errorMessage"] = describe_expected(node["items"])


def _inline(node: Node, shared: Mapping[str, Node]) -> Node:
    reference = str(node.get("$ref", "")).rpartition("/")[2]
    rest = {name: value for name, value in node.items() if name not in ("$ref", "title")}
    return {**(shared[reference] if reference else {}), **rest}


def _merge_unions(node: Node) -> None:
    """Write a union as one part, for which an editor shows `errorMessage` alone."""
    values: list[object] = []
    for each in cast(list[Node], node.pop("anyOf", [])):
        match each:
            case {"type": "boolean"}:
                values += [True, False]
            case {"enum": listed}:
                values += listed
            case {"const": value}:
                values.append(value)
            case {"type": "null"}:
                pass
            case _:
                node |= each
    if "const" in node:
        values.append(node.pop("const"))
    if values:
        node["enum"] = values
        node.pop("type", None)


def _permit_null(node: Node) -> None:
    if "enum" in node:
        node["enum"] = [*(each for each in node["enum"] if each is not None), None]
        node.pop("type", None)
    elif "type" in node:
        given = node["type"]
        node["type"] = [*(given if isinstance(given, list) else [given]), "null"]


def _list_alternatives(node: Node) -> list[str]:
    if "enum" in node:
        return [spell_value(each) for each in node["enum"] if each is not None]
    kind = str(node.get("type"))
    if kind == "array":
        of_mappings = "properties" in node.get("items", {})
        return ["a list of mappings" if of_mappings else "a list of texts"]
    if kind in ("integer", "number"):
        return [_describe_number(node, "a whole number" if kind == "integer" else "a number")]
    return _WORDS[kind]


def spell_value(value: object) -> str:
    """A value as YAML spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _describe_number(node: Node, noun: str) -> str:
    least, above, most = (node.get(n) for n in ("minimum", "exclusiveMinimum", "maximum"))
    upper = "" if most is None else f"{most:,.10g}" if most % 1 else f"{int(most):,}"
    if least is not None:
        return f"{noun} from {least:g} to {upper}" if upper else f"{noun}, {least:g} or more"
    if above is not None:
        return f"{noun} above {above:g}" + (f" and up to {upper}" if upper else "")
    return noun


def _join(words: Sequence[str], last: str) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
