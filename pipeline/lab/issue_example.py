"""The code that an issue shows, run: how an edit behaves, without a model."""

import re
from typing import Final

from pipeline.resources import Workspace
from pipeline.store import digest
from prompts.text import strip_ansi

_BLOCK: Final = re.compile(r"^(?:```|~~~).*\n((?:(?!```|~~~).*\n)*)(?:```|~~~)?", re.MULTILINE)
_PROMPT: Final = re.compile(r"^(?:>>>|\.\.\.|In \[\d+\]:) ?(.*)", re.MULTILINE)
_CHANCE: Final = re.compile(r"0x[0-9a-f]+|\d+\.\d+ ?s\b|/tmp/\S+")
_SCRIPT: Final = """
import ast, sys

known = {"__name__": "__main__"}

def show(block):
    try:
        statements = ast.parse(block).body
    except SyntaxError:
        return
    if "def test_" in block:
        import pytest
        with open("test_example.py", "w") as file:
            file.write(block)
        pytest.main(["-q", "-p", "no:cacheprovider", "test_example.py"])
        return
    for each in statements:
        try:
            if isinstance(each, ast.Expr):
                print(repr(eval(compile(ast.Expression(each.value), "issue", "eval"), known)))
            else:
                module = ast.parse("")
                module.body = [each]
                exec(compile(module, "issue", "exec"), known)
        except BaseException as error:
            print(type(error).__name__, error)

"""


def build_example(issue: str) -> str:
    """A script of what `issue` shows in fences; empty without any."""
    blocks = [found[1] for found in _BLOCK.finditer(issue[:50_000].replace("\r", "") + "\n")]
    typed = ["\n".join(_PROMPT.findall(block)) or block for block in blocks]
    return _SCRIPT + "".join(f"show({block!r})\n" for block in typed[:10]) if typed else ""


async def run_example(script: str, diff: str, workspace: Workspace) -> str:
    """A digest of what the script prints, without what chance decides. Raises as `Sandbox.run`."""
    run = await workspace.run_script(script, diff)
    return digest(_CHANCE.sub("", strip_ansi(run.output)), str(run.exit_code))
