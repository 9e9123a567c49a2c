"""Control scripts and tests of Python that must fail, under names that no edit can know."""

import re
import secrets
from collections.abc import Collection, Sequence

from pipeline.codebase.unified_diff import parse_diff
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.python.source import build_test_script
from sandbox.program import SCRIPT_PATH

_SCRIPT = """\
import importlib
import sys

for name in {modules!r}:
    try:
        importlib.import_module(name)
    except BaseException:
        pass
names = {{"__name__": "__main__", "__file__": {path!r}}}
try:
    exec(compile({text!r}, {path!r}, "exec"), names)
except BaseException:
    pass
exec(compile({end!r}, {path!r}, "exec"), names)  # {nonce}
"""
_ENDS = {
    "raise SystemExit": "raise SystemExit(2)",
    "os._exit": "import os; os._exit(2)",
    "sys.exit": "import sys; sys.exit(2)",
    "exit": "exit(2)",
    "quit": "quit(2)",
}
"""Ways to end a script, by how one is written: a control ends as the script does."""
_END = re.compile(r"\braise SystemExit\b|\bos\._exit\b|\bsys\.exit\b|\bexit\b|\bquit\b")
_TEST = """\
import importlib


def test_{nonce}():
    for name in {modules!r}:
        try:
            importlib.import_module(name)
        except BaseException:
            pass
    assert not "{nonce}"
"""
_CASE = """\
import importlib
import unittest


class Test{nonce}(unittest.TestCase):
    def test_{nonce}(self):
        for name in {modules!r}:
            try:
                importlib.import_module(name)
            except BaseException:
                pass
        self.fail("{nonce}")
"""


def write_control_script(text: str, diff: str, nonce: str) -> str:
    """See `Language.write_control_script`."""
    end = _ENDS[(_END.findall(text) or ["sys.exit"])[-1]]
    modules = _list_modules(diff)
    return _SCRIPT.format(modules=modules, text=text, end=end, nonce=nonce, path=SCRIPT_PATH)


def write_failing_test(diff: str, conventions: Conventions, taken: Collection[str]) -> str:
    """See `Language.write_failing_test`."""
    nonce = secrets.token_hex(8)
    path = conventions.fresh_path(nonce, taken)
    form = _TEST if conventions.runner == "pytest" else _CASE
    content = form.format(modules=_list_modules(diff), nonce=nonce)
    script, _ = build_test_script({path: content.encode()}, conventions)
    return script.text if script else ""


def write_control(kind: str, beside: str, nonce: str) -> tuple[str, bytes] | None:
    """See `Language.write_control`."""
    if kind not in ("pytest", "unittest", "labels"):
        return None
    folder, _, name = beside.rpartition("/")
    name = f"{nonce}_test.py" if name.endswith("_test.py") else f"test_{nonce}.py"
    text = _CASE + (_TEST if kind == "pytest" else "")
    return f"{folder}/{name}" if folder else name, text.format(nonce=nonce, modules=[]).encode()


def find_startup_file(diff: str) -> str:
    """The first path that Python's `site` runs by itself where it is importable; empty if none.

    Such a file can take any verdict in hand before the script or test is read.
    """
    for path in (file.new or "" for file in parse_diff(diff)):
        module = path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        if path.endswith(".pth") or (
            path.endswith(".py") and module in ("sitecustomize", "usercustomize")
        ):
            return path
    return ""


def _list_modules(diff: str) -> Sequence[str]:
    """The dotted names of the modules that `diff` changes, as they are most often imported."""
    found: dict[str, None] = {}
    for file in parse_diff(diff):
        path = file.new or ""
        if path.endswith(".py") and not is_test(path):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            parts = parts[1:] if parts[0] in ("src", "lib") and len(parts) > 1 else parts
            if all(part.isidentifier() for part in parts) and parts[-1] != "__main__":
                found[".".join(parts)] = None
    return list(found)[:20]
