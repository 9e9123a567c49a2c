"""A test module holds tests only: what two of them need has a module of its own."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
IMPORT = re.compile(r"^\s*(?:from|import) (tests\.(?:\w+\.)*(?:test_\w+|conftest))\b", re.M)


def test_nobody_imports_a_test_module_or_a_conftest() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for module in IMPORT.findall(path.read_text())
    ]
    assert found == []
