"""The nodes of a tree that a grammar's rules capture, in one walk.

tree-sitter's own queries take quadratic time where one node has very many children.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tree_sitter import Node, Tree

from pipeline.codebase.grammars import Grammar, Rule


class Capture(NamedTuple):
    name: str
    start: int
    """In bytes, as is `end`."""
    end: int
    scope: str
    """Whether the innermost definition around it is a `scope` or of `members`; empty if there is
    none."""
    column: int
    """The first column of its line that a node around it, or it, starts at."""


class _Step(NamedTuple):
    """A node on the way from the root."""

    node: Node
    kind: int
    field: int | None
    scope: str
    """Of what is inside of it."""
    row: int
    column: int


def find_captures(tree: Tree, grammar: Grammar) -> list[Capture]:
    """The captured nodes of `tree`, in the order of the text, outer ones first.

    Takes time in proportion to the number of nodes.
    """
    inside = {
        grammar.language.id_for_node_kind(kind, True): name
        for name, kinds in (("members", grammar.members), ("scope", grammar.scopes))
        for kind in kinds
    }
    by_kind, by_parent = grammar.rules
    found: list[Capture] = []
    for step, way in _walk(tree, inside):
        node, above = step.node, way[-1] if way else None
        rules = by_kind.get(step.kind, ())
        if above and above.kind in by_parent and node.is_named and not node.is_error:
            rules += by_parent[above.kind]
        scope = above.scope if above else ""
        found += [
            Capture(rule.capture, node.start_byte, node.end_byte, scope, step.column)
            for rule in rules
            if _fits(rule, step, way)
        ]
    return found


def _walk(tree: Tree, inside: Mapping[int | None, str]) -> Iterator[tuple[_Step, list[_Step]]]:
    """Each node with the way to it. `inside`: what a node of a kind is to the names in it."""
    way: list[_Step] = []
    cursor = tree.walk()
    while (node := cursor.node) is not None:
        kind, (row, column) = node.kind_id, node.start_point
        above = way[-1] if way else None
        if above and above.row == row:
            column = above.column
        scope = inside.get(kind, above.scope if above else "")
        step = _Step(node, kind, cursor.field_id, scope, row, column)
        yield step, way
        if cursor.goto_first_child():
            way.append(step)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            way.pop()


def _fits(rule: Rule, at: _Step, way: list[_Step]) -> bool:
    """Whether `at`, to which `way` leads, is a node that `rule` captures."""
    above = len(way) - 1
    for wanted in rule.steps:
        if wanted.kind is not None and wanted.kind != at.kind:
            return False
        if wanted.field is not None and wanted.field != at.field:
            return False
        parent = way[above] if above >= 0 else None
        if wanted.only and (parent is None or parent.node.named_child_count != 1):
            return False
        if wanted is rule.steps[-1]:
            return True
        if parent is None:
            return False
        at, above = parent, above - 1
    return True
