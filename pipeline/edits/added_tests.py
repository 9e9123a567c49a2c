"""Finds the tests that a diff adds to a Python file, by the file's syntax tree."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.edits.unified_diff import FileDiff, Hunk, parse_diff

_FUNCTION = "function_definition"


def find_added_tests(diff: str, path: str, text: str) -> tuple[str, ...]:
    """The names of the test functions and methods that `diff` adds to `path`, whose new content is
    `text`.

    Code in a string is no test, nor is a function within a function: no runner finds them. None if
    `text` is not what `diff` leaves.
    """
    grammar = grammar_of(path)
    if grammar is None or grammar.name != "python":
        return ()
    lines = [line.rstrip("\r") for line in text.split("\n")]
    files = [file for file in parse_diff(diff) if file.new == path]
    added = {at for file in files for at, line in _list_added(file) if lines[at : at + 1] == [line]}
    tree = parse_code(grammar, text.encode("utf-8", "replace")) if added else None
    if tree is None:
        return ()
    functions = (node for node in _list_functions(tree.root_node) if node.start_point.row in added)
    names = (_read_name(node) for node in functions)
    return tuple(dict.fromkeys(name for name in names if name.startswith("test")))


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


def _list_functions(root: Node) -> Iterator[Node]:
    """The functions at the top and the methods of classes, in order."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == _FUNCTION:
            yield node
        else:
            nodes += reversed(node.named_children)


def _read_name(function: Node) -> str:
    name = function.child_by_field_name("name")
    return name.text.decode("utf-8", "replace") if name is not None and name.text else ""
