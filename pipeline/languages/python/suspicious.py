"""What in a change to a Python repository could steer or forge its tests."""

import re
import sys
from collections.abc import Iterator
from typing import Final

from pipeline.codebase.unified_diff import FileDiff

_EARLY: Final = ("conftest.py", "sitecustomize.py", "usercustomize.py")
_PYTEST_FILES: Final = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
_SHARED_FILES: Final = ("pyproject.toml", "setup.cfg", "tox.ini", "setup.py")
_PYTEST_SETTING: Final = re.compile(
    r"\[(tool:|tool\.)?pytest|\bpytest11\b"
    r"|^\s*(addopts|pythonpath|python_(files|classes|functions)|testpaths|conftest)\s*="
)
_WORDS: Final = re.compile(
    r"os\._exit|\batexit\b|CAPUCHIN_|capuchin_inside|\bsys\.(?:meta_path|path_hooks|set(?:trace|profile))\b"
)
_FRAMES: Final = re.compile(
    r"\bsys\._(?:getframe\w*|current_frames)|\binspect\.(?:currentframe|stack|trace|getouterframes)"
    r"|\btraceback\.(?:walk|extract)_stack|\bgc\.get_(?:objects|referrers)"
    r"|\b(?:f_back|f_locals|tb_frame|co_consts)\b"
)
_REPLACED: Final = re.compile(
    r"^\s*((?:sys|builtins|os|unittest|pytest|_pytest)(?:\.\w+){1,4})(?:\s*:[^=]{1,60})?\s*=(?!=)"
    r"|\bsetattr\(\s*((?:sys|builtins|os|unittest|pytest|_pytest)\b)"
)
_HARMLESS: Final = re.compile(
    r"sys\.(std(in|out|err)|argv|path|dont_write_bytecode|tracebacklimit|ps[12])$|os\.environ$"
)
_EQUAL: Final = re.compile(r"^\s*def __(eq|ne)__\(")
_CONSTANT: Final = re.compile(r"(?:^|:)\s*return\s+(True|False)\s*(?:#.*)?$")
_EQUALITY: Final = {("eq", "True"): "equal to everything", ("ne", "False"): "unequal to nothing"}
_TOOLS: Final = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "nose"})
_ROOTS: Final = ("", "src/", "lib/")
_LONGEST: Final = 500
"""Characters read of a line."""


def find_suspicious(file: FileDiff) -> Iterator[str]:
    """See `Language.find_suspicious`. Paths in the sentences are untrusted."""
    path, name = file.path, file.path.rpartition("/")[2]
    if name in _EARLY or name.endswith(".pth"):
        yield f"changes `{path}`, which runs before any test does."
    if name in _PYTEST_FILES:
        yield f"changes `{path}`, which says how tests run."
    if file.old != file.new and (hidden := _find_hidden(file.new or "")):
        yield f"adds `{path}`, which Python may import in place of its own `{hidden}`."
    for hunk in file.hunks:
        before = ""
        for marker, line in hunk.lines:
            if marker == "+":
                yield from _look_at_line(path, name, line[:_LONGEST], before)
            if line.strip():
                before = line[:_LONGEST]


def _look_at_line(path: str, name: str, line: str, before: str) -> Iterator[str]:
    if word := _WORDS.search(line):
        yield f"adds `{word[0]}` to `{path}`, which can forge results."
    if word := _FRAMES.search(line):
        yield f"adds `{word[0]}` to `{path}`, with which code can read what its caller expects."
    if name in _SHARED_FILES and _PYTEST_SETTING.search(line):
        yield f"changes in `{path}` how tests run."
    if match := _REPLACED.search(line):
        target = match[1] or match[2]
        if not _HARMLESS.match(target):
            yield f"replaces a part of `{target.partition('.')[0]}` in `{path}`."
    equal = _EQUAL.match(line) or _EQUAL.match(before)
    if equal and (constant := _CONSTANT.search(line)):
        words = _EQUALITY.get((equal[1], constant[1]))
        if words:
            yield f"makes objects of `{path}` {words}, so that comparing them shows nothing."


def _find_hidden(path: str) -> str:
    """The module of Python, or the test runner's, whose place a new file can take."""
    for root in _ROOTS:
        top, _, rest = path.removeprefix(root).partition("/")
        module = top.removesuffix(".py")
        if (
            not path.startswith(root)
            or not path.endswith(".py")
            or module in ("test", "src", "lib")
        ):
            continue
        is_module = not rest or rest == "__init__.py"
        if is_module and (module in sys.stdlib_module_names or module in _TOOLS):
            return module
    return ""
