"""Makes tests fail under their own names, in the syntax of any Python."""

from collections.abc import Iterator
from typing import Final

from tree_sitter import Node

from pipeline.codebase.grammars import grammar_of, parse_code

Edit = tuple[int, int, bytes]
"""Where it begins and ends in the old bytes, and what stands there then."""


def parse_python(text: bytes) -> Node | None:
    """The tree of a file; None if no Python can read it."""
    grammar = grammar_of("a.py")
    tree = parse_code(grammar, text) if grammar else None
    return None if tree is None or tree.root_node.has_error else tree.root_node


def apply_edits(text: bytes, edits: list[Edit]) -> bytes:
    """`text` with edits that do not overlap."""
    parts, at = list[bytes](), 0
    for first, last, new in sorted(edits):
        parts += [text[at:first], new]
        at = last
    return b"".join([*parts, text[at:]])


def make_failing(source: bytes, nonce: str) -> bytes | None:
    """A file of tests in which every test raises when it has run, however it ends; None if no
    Python can read it."""
    encoding = "utf-8-sig"
    try:
        text = source.decode(encoding).encode()
    except UnicodeDecodeError:
        encoding = "latin-1"  # each byte a character, whatever the file declares
        text = source.decode(encoding).encode()
    root = parse_python(text)
    if root is None:
        return None
    tests = [node for node in list_functions(root) if read_name(node).startswith("test")]
    edits = [edit for node in tests for edit in _fail_at_end(node, text, nonce)]
    return apply_edits(text, edits).decode().encode(encoding.removesuffix("-sig"))


def list_functions(root: Node) -> Iterator[Node]:
    """The functions at the top and the methods of classes, in order."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "function_definition":
            yield node
        else:
            nodes += reversed(node.named_children)


def read_name(function: Node) -> str:
    name = function.child_by_field_name("name")
    return name.text.decode("utf-8", "replace") if name is not None and name.text else ""


_DEEPER: Final = b" "
"""One more space, after whatever a line is indented by, is deeper for every Python."""


def _fail_at_end(function: Node, text: bytes, nonce: str) -> Iterator[Edit]:
    body = function.child_by_field_name("body")
    if body is None:
        return
    first, last = body.start_byte, body.end_byte
    before = text[text.rfind(b"\n", 0, first) + 1 : first]
    indent = before[: len(before) - len(before.lstrip())]
    head = b"try:\n" + indent + _DEEPER
    if before.strip():  # on the line of `def`
        indent += _DEEPER
        head = b"\n" + indent + b"try:\n" + indent + _DEEPER
    yield first, first, head
    inside = [(node.start_byte, node.end_byte) for node in _list_strings(body)]
    at = text.find(b"\n", first, last) + 1
    while at:
        if not any(start < at < end for start, end in inside):
            own = at + len(text[at:last]) - len(text[at:last].lstrip(b" \t"))
            yield own, own, _DEEPER
        at = text.find(b"\n", at, last) + 1
    fail = f"raise AssertionError({nonce!r})".encode()
    yield last, last, b"\n" + indent + b"finally:\n" + indent + _DEEPER + fail


def _list_strings(root: Node) -> Iterator[Node]:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "string":
            yield node
        else:
            nodes += node.named_children
