"""Tells a script that came to its verdict from a process that merely ended with 0.

The script runs inside a wrapper that knows a nonce and prints it behind the script's own verdict.
Code under test that ends the interpreter (`os._exit`, an exit handler that does) does not print
it. The wrapper and that code share a process: code that searches the process for the nonce finds
it. This wall is against cheap forgeries, not against those.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from functools import cache
from importlib import resources
from typing import Final

from sandbox.base import Execution
from sandbox.frozen import replace
from sandbox.program import SCRIPT_PATH, Program

NONCE_PATH: Final = SCRIPT_PATH.rpartition("/")[0] + "/nonce"
NO_VERDICT: Final = (
    "[The process ended with exit code 0 before the script came to its verdict. It does not count.]"
)
_BROKEN: Final = 1
"""Neither 0 (fixed) nor 2 (not fixed)."""


def wrap_script(program: Program) -> tuple[Program, str]:
    """The program in its wrapper, and the nonce; empty for a program that is no script."""
    if program.script is None or list(program.argv[1:]) != [SCRIPT_PATH]:
        return program, ""
    nonce = secrets.token_hex(16)
    argv = (program.argv[0], "-c", _wrapper_source(), SCRIPT_PATH, NONCE_PATH)
    files = {**program.files, NONCE_PATH: nonce}
    return dataclasses.replace(program, argv=argv, files=files), nonce


def check_verdict(execution: Execution, nonce: str) -> Execution:
    """The execution without the nonce. Exit code 0 that the script did not reach becomes 1."""
    if not nonce:
        return execution
    pattern = rf"\n?{nonce} (\d{{1,3}})\n"
    reached = re.findall(pattern, execution.output)
    # The wrapper begins a new line, where the script may have ended one.
    output = re.sub(pattern, "", execution.output)
    if execution.exit_code == 0 and "0" not in reached:
        output = f"{output.rstrip()}\n{NO_VERDICT}\n".lstrip("\n")
        return replace(execution, exit_code=_BROKEN, output=output)
    return replace(execution, output=output)


@cache
def _wrapper_source() -> str:
    return (resources.files("sandbox.guest") / "script_wrapper.py").read_text("utf-8")
