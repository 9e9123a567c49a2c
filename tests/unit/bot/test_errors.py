"""The room has one exception tree, and `bot/errors.py` draws all of it."""

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import bot.errors

ROOM = Path(bot.errors.__file__).parent


@cache
def _bases() -> dict[str, set[str]]:
    """The bases of each class of the room, by its name."""
    found: dict[str, set[str]] = {}
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                found[node.name] = {ast.unparse(base) for base in node.bases}
    return found


def _is_builtin_error(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def test_every_exception_has_the_common_root() -> None:
    roots = {name for name, bases in _bases().items() if any(map(_is_builtin_error, bases))}

    assert roots == {"BotError"}


def test_the_tree_is_drawn_as_it_is() -> None:
    bases = _bases()
    drawing = (bot.errors.__doc__ or "") + (bot.errors.GitHubError.__doc__ or "")

    def is_error(name: str) -> bool:
        return name == "BotError" or any(is_error(base) for base in bases.get(name, ()))

    errors = {name for name in bases if is_error(name)}
    drawn = set(re.findall(r"(?:[├└]── |, )([A-Z]\w+)", drawing)) | {"BotError"}
    assert drawn & errors == errors
    assert drawn - errors == set()
