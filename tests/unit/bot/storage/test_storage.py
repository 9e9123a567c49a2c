"""Storage is the only way to Redis."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[4]
CONNECTION = {"redis", "keys"}
"""What a `Storage` holds for its own package."""


def find_connections(source: str) -> Iterator[int]:
    """The lines that read an attribute of `CONNECTION`; a call `x.keys()` is a mapping's."""
    if not any(f".{name}" in source for name in CONNECTION):
        return
    tree = ast.parse(source)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CONNECTION and node not in called:
            yield node.lineno


def test_nobody_outside_the_package_uses_the_connection_or_the_keys() -> None:
    modules = [
        path
        for path in (ROOT / "bot").rglob("*.py")
        if path.relative_to(ROOT).parts[:2] != ("bot", "storage")
    ]
    assert len(modules) > 100
    found = {
        str(path.relative_to(ROOT)): lines
        for path in modules
        if (lines := list(find_connections(path.read_text("utf-8"))))
    }
    assert found == {}


def test_a_use_of_the_connection_is_found() -> None:
    assert list(find_connections("a.redis.get(b)\n{}.keys()\nlease.storage.keys.run(1)")) == [1, 3]
