"""What the test session of `noxfile.py` installs and sets, as far as it is literal.

The file never runs, and a grammar that knows every version of Python reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.languages.python.tox_nox import TEST_ENVIRONMENTS, Routine

_NAME = "noxfile.py"
_SESSION = re.compile(r"@\s*(?:nox\.)?session\b(?:.*\bname\s*=\s*[\"']([^\"']+)[\"'])?", re.DOTALL)


def nox_routine(texts: Mapping[str, str]) -> Routine:
    """Calls whose arguments are computed are left out."""
    installs: list[tuple[str, ...]] = []
    for node in _walk(_find_session(texts)):
        function, given = node.child_by_field_name("function"), _literals_of(node)
        if node.type == "call" and _name_of(function, "attribute") == "install" and given:
            installs.append(given)
    return Routine(installs=tuple(installs))


def nox_variables(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`session.env["A"] = "b"`, and the `env` of `session.run`."""
    for node in _walk(_find_session(texts)):
        left, right = (node.child_by_field_name(name) for name in ("left", "right"))
        if node.type == "assignment" and left and left.type == "subscript":
            if _name_of(left.child_by_field_name("value"), "attribute") == "env":
                yield from _pair(left.child_by_field_name("subscript"), right)
        elif node.type == "keyword_argument" and _name_of(node, "name") == "env":
            given = node.child_by_field_name("value")
            for pair in given.named_children if given and given.type == "dictionary" else ():
                yield from _pair(*(pair.child_by_field_name(name) for name in ("key", "value")))


def _find_session(texts: Mapping[str, str]) -> Node | None:
    """The function of the session that runs the tests."""
    grammar = grammar_of(_NAME)
    tree = parse_code(grammar, texts.get(_NAME, "").encode("utf-8", "replace")) if grammar else None
    sessions: dict[str, Node] = {}
    for node in tree.root_node.named_children if tree else ():
        definition = node.child_by_field_name("definition")
        for decorator in node.named_children if definition else ():
            found = _SESSION.match(_text_of(decorator)) if decorator.type == "decorator" else None
            if found and definition:
                sessions[found[1] or _name_of(definition, "name")] = definition
    return next((sessions[name] for name in TEST_ENVIRONMENTS if name in sessions), None)


def _walk(top: Node | None) -> Iterator[Node]:
    """In the order of the text."""
    left = [top] if top else []
    while left:
        node = left.pop()
        yield node
        left += reversed(node.named_children)


def _pair(name: Node | None, value: Node | None) -> Iterator[tuple[str, str]]:
    literals = _literal(name), _literal(value)
    if literals[0] is not None and literals[1] is not None:
        yield literals[0], literals[1]


def _literals_of(call: Node) -> tuple[str, ...]:
    """The arguments without names; empty if one is computed."""
    arguments = call.child_by_field_name("arguments")
    given = (
        [
            node
            for node in arguments.named_children
            if node.type not in ("keyword_argument", "comment")
        ]
        if arguments
        else []
    )
    values = [_literal(node) for node in given]
    return tuple(value for value in values if value is not None) if None not in values else ()


def _literal(node: Node | None) -> str | None:
    """A string's value; None for what is computed, or escaped."""
    if node is None or node.type not in ("string", "concatenated_string"):
        return None
    if node.type == "concatenated_string":
        parts = [_literal(one) for one in node.named_children if one.type != "comment"]
        return "".join(filter(None, parts)) if None not in parts else None
    begins = _text_of(node)[:1]
    inner = [one for one in node.named_children if one.type == "string_content"]
    kinds = {one.type for part in (node, *inner) for one in part.named_children}
    is_plain = begins in "\"'" and kinds <= {"string_start", "string_content", "string_end"}
    return "".join(map(_text_of, inner)) if is_plain else None


def _name_of(node: Node | None, field: str) -> str:
    return _text_of(node.child_by_field_name(field)) if node else ""


def _text_of(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node else ""
