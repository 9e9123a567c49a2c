"""Changes what a script expects: code that computes its results cannot know the new value."""

from collections.abc import Iterator, Sequence

from tree_sitter import Node

from pipeline.languages.python.failing_tests import apply_edits, parse_python

_ASSERTIONS = frozenset({b"assertEqual", b"assertEquals"})


def change_expectations(text: str, nonce: str) -> tuple[str, str] | None:
    """`text` with a fresh value for each literal that it compares by equality, and with an object
    that equals nothing; None if there is no such literal, or no Python can read it."""
    data = text.encode("utf-8", "replace")
    root = parse_python(data)
    values = list(_list_expected(root)) if root else []
    if not values:
        return None

    def change(new: Sequence[str]) -> str:
        pairs = zip(values, new, strict=True)
        edits = [(node.start_byte, node.end_byte, word.encode()) for node, word in pairs]
        return apply_edits(data, edits).decode()

    fresh = [_write_fresh(node, nonce) for node in values]
    return change(fresh), change(["object()"] * len(values))


def _list_expected(root: Node) -> Iterator[Node]:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        nodes += node.named_children
        sides = [_open_brackets(side) for side in _list_sides(node)]
        values = [side for side in sides if _is_value(side)]
        if len(values) < len(sides) and not any(side.text == b"__name__" for side in sides):
            yield from values


def _list_sides(node: Node) -> list[Node]:
    """What a node compares by equality; nothing if it does not."""
    if node.type == "comparison_operator":
        operators = node.children_by_field_name("operators")
        equal = all(one.type in ("==", "!=", "<>") for one in operators)
        return [one for one in node.named_children if one.type != "comment"] if equal else []
    function = node.child_by_field_name("function") if node.type == "call" else None
    name = function.child_by_field_name("attribute") if function else None
    given = node.child_by_field_name("arguments")
    if name is None or name.text not in _ASSERTIONS or given is None:
        return []
    unplaced = ("keyword_argument", "comment")
    return [one for one in given.named_children if one.type not in unplaced][:2]


def _open_brackets(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def _is_value(node: Node) -> bool:
    """A literal of a kind that has many values."""
    if node.type == "concatenated_string":
        return all(map(_is_value, node.named_children))
    plain = node.type == "string" and not set(_read_prefix(node)) & set("ft")
    return plain or node.type in ("integer", "float")


def _read_prefix(string: Node) -> str:
    """The prefix of its first part, in lower case, without the quotes."""
    text = (string.text or b"").decode("utf-8", "replace")
    return text[: len(text) - len(text.lstrip("bBrRuUfFtT"))].lower()


def _write_fresh(node: Node, nonce: str) -> str:
    """Of the kind of `node`, so that code that looks for its kind finds it, with its quote."""
    number = str(int(nonce[:8], 16))
    if node.type in ("integer", "float"):
        return number if node.type == "integer" else f"{number}.5"
    prefix = _read_prefix(node)
    quote = (node.text or b"").decode("utf-8", "replace")[len(prefix)]
    return f"{'b' if 'b' in prefix else ''}{quote}{nonce}{quote}"
