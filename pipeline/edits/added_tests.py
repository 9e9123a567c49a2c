"""Finds the tests that a diff adds to a Python file, by the file's syntax tree."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.edits.unified_diff import FileDiff, Hunk, parse_diff

_FUNCTION, _CLASS = "function_definition", "class_definition"


def find_added_tests(diff: str, path: str, text: str) -> tuple[str, ...]:
    """The names of the test functions and methods that `diff` adds to `path`, whose new content is
    `text`.

    Code in a string is no test, nor is a function within a function: no runner finds them. None if
    `text` is not what `diff` leaves.
    """
    places = find_places_of_added_tests(diff, path, text)
    return tuple(dict.fromkeys(place.rpartition(".")[2] for place in places))


def find_places_of_added_tests(diff: str, path: str, text: str) -> tuple[str, ...]:
    """The same tests, each behind the names of its classes, as in `TillTest.test_total`."""
    grammar = grammar_of(path)
    if grammar is None or grammar.name != "python":
        return ()
    lines = [line.rstrip("\r") for line in text.split("\n")]
    files = [file for file in parse_diff(diff) if file.new == path]
    added = {at for file in files for at, line in _list_added(file) if lines[at : at + 1] == [line]}
    tree = parse_code(grammar, text.encode("utf-8", "replace")) if added else None
    if tree is None:
        return ()
    found = (
        ".".join((*classes, name))
        for node, classes in _list_functions(tree.root_node)
        if node.start_point.row in added and (name := _read_name(node)).startswith("test")
    )
    return tuple(dict.fromkeys(found))


def _list_added(file: FileDiff) -> Iterator[tuple[int, str]]:
    """The lines that are new, each with its place in the new file, from 0."""
    shift = 0
    for hunk in file.hunks:
        at = _find_start(hunk) + shift
        for marker, line in hunk.lines:
            if marker == "+":
                yield at, line
            at += marker != "-"
            shift += {"+": 1, "-": -1}.get(marker, 0)


def _find_start(hunk: Hunk) -> int:
    """The first line of the old file, from 0; a hunk without old lines names the line before it."""
    return hunk.start - 1 if any(marker != "+" for marker, _ in hunk.lines) else hunk.start


def _list_functions(root: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """The functions at the top and the methods of classes, in order, each with its classes."""
    nodes: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    while nodes:
        node, classes = nodes.pop()
        if node.type == _FUNCTION:
            yield node, classes
        else:
            inner = (*classes, _read_name(node)) if node.type == _CLASS else classes
            nodes += [(child, inner) for child in reversed(node.named_children)]


def _read_name(definition: Node) -> str:
    name = definition.child_by_field_name("name")
    return name.text.decode("utf-8", "replace") if name is not None and name.text else ""
