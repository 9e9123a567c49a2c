"""What may stand for a key, and a mistake explained to its author.

The same sentence is in every message and, by `errorMessage`, in an editor.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic_core import ErrorDetails

from bot.data.removed_settings import REMOVED

Node = dict[str, Any]
"""A JSON Schema, or a part of one."""


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
            case {"type": kind} if "type" in node:
                node |= {**each, "type": [node["type"], kind]}
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
    kind = node.get("type")
    if isinstance(kind, list):
        parts = [{**node, "type": one} for one in cast(list[str], kind)]
        return [text for part in parts for text in _list_alternatives(part)]
    if kind == "array":
        of_mappings = "properties" in node.get("items", {})
        return ["a list of mappings" if of_mappings else "a list of texts"]
    if kind in ("integer", "number"):
        return [_describe_number(node, "a whole number" if kind == "integer" else "a number")]
    return {"boolean": ["true", "false"], "string": ["text"]}[str(kind)]


def spell_value(value: object) -> str:
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


MAX_NAME: Final = 100
"""Characters of a key that a message quotes."""


def explain_home(name: str, home: str) -> str:
    """The sentence about a key that is at the top of the file and should be below `home`."""
    return f'"{name}" belongs below "{home}", indented.'


def explain_fault(root: Node, fault: ErrorDetails) -> str:
    """A sentence on what is wrong and what to write; `root` is the completed schema.

    It may quote the file: untrusted.
    """
    path = fault["loc"]
    if fault["type"] == "extra_forbidden":
        return _explain_key(root, path)
    if fault["type"] == "json_invalid":
        return "The file contains invalid characters."
    if not path:
        return (
            "The file must be a mapping of settings to values: for each a line such as "
            "`samples: 3`, with a space after the colon."
        )
    named = (
        path[:1] if path[0] in ("commits", "draft", "follow_up") else path
    )  # not by the branch of its union
    name = ".".join(str(part)[:MAX_NAME] for part in named)
    return f'"{name}": {_explain_value(find_node(root, path), fault)}'


def _explain_key(root: Node, path: tuple[int | str, ...]) -> str:
    *above, last = (str(part)[:MAX_NAME] for part in path)
    home = find_homes(root).get(last)
    if not above and home:
        return explain_home(last, home)
    name = ".".join((*above, last))
    if not above and last in REMOVED["keys"]:
        return f'"{last}" no longer exists. {REMOVED["keys"][last]}'
    if above and last in root["properties"]:
        return f'"{last}" does not belong below "{above[0]}": do not indent it.'
    known = find_node(root, path[:-1]).get("properties", {})
    return f'There is no setting "{name}".{_suggest(last, known)}'


def _explain_value(node: Node, fault: ErrorDetails) -> str:
    given, kind, context = fault["input"], fault["type"], fault.get("ctx", {})
    if kind == "string_type" and isinstance(given, int | float):
        return f"YAML reads this as {_name_kind(given)}. Put it in quotes."
    match kind:
        case "quotes":
            return f"{fault['msg']}."
        case "too_long":
            return f"Write at most {context['max_length']} of them."
        case "string_too_long":
            return f"Write at most {context['max_length']} characters."
        case _:
            values = [
                spell_value(each)
                for each in node.get("enum", node.get("examples", []))
                if each is not None
            ]
            is_text = "string" in node.get("type", ())
            quoted = r"\d{1,9}(\.\d{1,9})?|true|false|yes|no|on|off"
            if isinstance(given, str) and not is_text and re.fullmatch(quoted, given):
                return f"{describe_expected(node)[:-1]}, without quotes."
            return describe_expected(node) + _suggest(str(given)[:MAX_NAME], values)


def _name_kind(value: float) -> str:
    if isinstance(value, bool):
        return "yes or no"
    return f"the number {value:g}" if abs(value) < 10**6 else "a number"


def _suggest(word: str, known: Mapping[str, object] | list[str]) -> str:
    close = difflib.get_close_matches(word, [*known], n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
