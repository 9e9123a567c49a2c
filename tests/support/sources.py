"""The project's own sources, read and parsed once a process, for tests of the house."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@cache
def list_modules(room: str) -> tuple[Path, ...]:
    """The Python files under the folder `room` of the repository, sorted."""
    return tuple(sorted((ROOT / room).rglob("*.py")))


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file of the project. Do not change it: other tests read it, too."""
    return ast.parse(path.read_text(encoding="utf-8"))
