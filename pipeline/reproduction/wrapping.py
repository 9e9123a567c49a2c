"""Wraps a script as a test file mechanically, without a model."""

from __future__ import annotations

import re
from typing import Literal

from pipeline.types import TestScript

_HEAD = '''"""Runs the script that reproduces the issue: it exits with 0 when the issue is fixed."""

import subprocess
import sys
{imports}
SCRIPT = "\\n".join(
    [
{lines}
    ]
)

'''
_PYTEST = """
def test_{name}():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    assert run.returncode == 0, run.stdout
"""
_UNITTEST = """
class {case}(unittest.TestCase):
    def test_{name}(self):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
"""
WRAPPED_TEST_CLASS = "ReproductionTest"


def wrap_script(script: TestScript, style: Literal["pytest", "unittest"], words: str) -> str:
    """The text of a test file that runs `script`; `words` (untrusted) name its one test."""
    lines = "\n".join(f"        {line!r}," for line in script.text.split("\n"))
    name = "_".join(re.findall(r"[a-z0-9]+", words.lower())[:6])[:48].strip("_") or "issue"
    if style == "pytest":
        return _HEAD.format(imports="", lines=lines) + _PYTEST.format(name=name)
    test = _UNITTEST.format(name=name, case=WRAPPED_TEST_CLASS)
    return _HEAD.format(imports="import unittest\n", lines=lines) + test
