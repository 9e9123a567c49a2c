"""Checks whether Python files parse, in a separate process: hostile text can crash a parser."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from pipeline.codebase.isolated import run_isolated

SECONDS = 20.0
_CHECK = """\
import json, sys
found = {}
for path, text in json.load(sys.stdin).items():
    try:
        compile(text.encode("latin-1"), path, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = (error.text or "").strip()[:200]
        found[path] = f"line {error.lineno}: {error.msg}" + (f": {line}" if line else "")
    except (ValueError, RecursionError, MemoryError, OverflowError):
        pass
json.dump(found, sys.stdout)
"""
_ERRORS = TypeAdapter(dict[str, str])


async def find_syntax_errors(files: Mapping[str, bytes]) -> dict[str, str]:
    """Find the Python files that do not parse, each with the line and this Python's message.

    `files` are contents by path; those that are not `.py` are ignored. Empty if there is no result:
    the parser crashed or took longer than 20 s.
    """
    python = {path: data.decode("latin-1") for path, data in files.items() if path.endswith(".py")}
    if not python:
        return {}
    output = await run_isolated(_CHECK, json.dumps(python).encode(), seconds=SECONDS)
    try:
        return _ERRORS.validate_json(output)
    except ValidationError:
        return {}
