"""Common code names no language: what is Python's stands in Python's folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[4]
NAMED = re.compile(r"\.py\b|\bpytest\b|\bpip\b|\bunittest\b")
EXCEPTED = {
    "pipeline/codebase/text.py": "the encoding cookie is part of Python's files",
    "pipeline/context/files/filters.py": "Python's files are ranked first, as on the benchmark",
    "pipeline/edits/patches.py": "which files are run before anybody reads the edit, by name",
    "pipeline/environment/facts.py": "which distributions say most, by name",
    "pipeline/languages/ci.py": "which Debian packages belong to a runner of CI",
    "pipeline/languages/conventions.py": "the form of Python's tests, beside the general one",
    "pipeline/languages/described.py": "its judge in the sandbox is a program of Python",
    "pipeline/languages/formatters.py": "pip brings formatters of any language",
    "pipeline/languages/readers.py": "one reader for each runner",
    "pipeline/languages/test_command.py": "dotted labels are those of Django's runner",
    "pipeline/localisation/stages.py": "an example of a place",
    "pipeline/lab/learning/interpreter.py": "the trainer is a program of Python",
    "pipeline/regression/runner.py": "our own wrapper is a program of Python",
}
"""Common code that names a runner or a suffix, and why it may."""
OWN = ("pipeline/languages/python", "pipeline/languages/node")


def list_texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, with their lines."""
    tree = ast.parse(path.read_text("utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


def test_common_code_names_no_language() -> None:
    found: set[str] = set()
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        place = str(path.relative_to(ROOT))
        if not place.startswith(OWN) and any(NAMED.search(text) for _, text in list_texts(path)):
            found.add(place)
    assert found - EXCEPTED.keys() == set()
    assert {name for name in EXCEPTED if name.startswith("pipeline")} - found == set()
