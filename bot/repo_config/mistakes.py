"""Explains a mistake in the settings file to its author."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, get_args

from bot.repo_config.expected import Node, describe_expected, find_homes, find_node, spell_value
from pipeline.options import SelectionMethod

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_NUMBER: Final = 10**6
"""Larger numbers are not quoted."""
MAX_NAME: Final = 100
"""Characters of a key that a message quotes."""

_ONE_GOOD_VALUE: Final = "it has one good value now. Delete it."
REMOVED: Final[Mapping[str, str]] = {
    "first_wave": _ONE_GOOD_VALUE,
    "agreement": _ONE_GOOD_VALUE,
    "informed": _ONE_GOOD_VALUE,
    "approaches": _ONE_GOOD_VALUE,
    "all_tests_vote": _ONE_GOOD_VALUE,
    "repeat_tests": _ONE_GOOD_VALUE,
    "scout_threshold": _ONE_GOOD_VALUE,
    "context_cap": 'it is fixed at 128,000 tokens. Delete it; "context_tokens" stays.',
    "prefilter": 'it is automatic now. Delete it; "include" and "exclude" select files.',
}
"""Keys of earlier versions, and what to do instead."""
_NOT_TEXT: Final = re.compile(r"\d{1,9}(\.\d{1,9})?|true|false|yes|no|on|off")
"""What YAML reads as text only because of its quotes."""
_EXPERIMENT: Final = (
    '{0} is for experiments, by "capuchin fix --selection {0}". '
    "Write evidence, voting or machine here."
)
_NO_MAPPING: Final = (
    "The file must be a mapping of settings to values: for each a line such as `samples: 3`, with "
    "a space after the colon."
)


def explain_removed(name: str) -> str:
    """The sentence about a key of an earlier version."""
    return f'"{name}" was removed: {REMOVED[name]}'


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
        return _NO_MAPPING
    named = path[:1] if path[0] == "draft" else path  # not by the branch of its union
    name = ".".join(str(part)[:MAX_NAME] for part in named)
    return f'"{name}": {_explain_value(find_node(root, path), fault)}'


def _explain_key(root: Node, path: tuple[int | str, ...]) -> str:
    *above, last = (str(part)[:MAX_NAME] for part in path)
    if not above and last in REMOVED:
        return explain_removed(last)
    home = find_homes(root).get(last)
    if not above and home:
        return explain_home(last, home)
    name = ".".join((*above, last))
    if above and last in root["properties"]:
        return f'"{last}" does not belong below "{above[0]}": do not indent it.'
    known = find_node(root, path[:-1]).get("properties", {})
    return f'There is no setting "{name}".{_suggest(last, known)}'


def _explain_value(node: Node, fault: ErrorDetails) -> str:
    given, kind, context = fault["input"], fault["type"], fault.get("ctx", {})
    if kind == "string_type" and isinstance(given, int | float):
        return f"YAML reads this as {_name_kind(given)}. Put it in quotes."
    if fault["loc"] == ("selection",) and given in get_args(SelectionMethod):
        return _EXPERIMENT.format(given)
    match kind:
        case "trust" | "quotes":
            return f"{fault['msg']}."
        case "too_long":
            return f"Write at most {context['max_length']} of them."
        case "string_too_long":
            return f"Write at most {context['max_length']} characters."
        case _:
            values = _list_values(node)
            is_text = "string" in node.get("type", ())
            if isinstance(given, str) and not is_text and _NOT_TEXT.fullmatch(given):
                return f"{describe_expected(node)[:-1]}, without quotes."
            return describe_expected(node) + _suggest(str(given)[:MAX_NAME], values)


def _list_values(node: Node) -> list[str]:
    return [spell_value(each) for each in node.get("enum", []) if each is not None]


def _name_kind(value: float) -> str:
    if isinstance(value, bool):
        return "yes or no"
    return f"the number {value:g}" if abs(value) < MAX_NUMBER else "a number"


def _suggest(word: str, known: Mapping[str, object] | list[str]) -> str:
    close = difflib.get_close_matches(word, [*known], n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
