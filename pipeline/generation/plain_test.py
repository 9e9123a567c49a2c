"""A reproduction test without a model's help: the script, run by a test of the repository."""

from __future__ import annotations

import re

from pipeline.codebase.conventions import Runner
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
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
"""
_UNITTEST = """
class {case}(unittest.TestCase):
    def test_{name}(self):
        run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
"""
CASE = "ReproductionTest"


def plain_test(script: TestScript, runner: Runner, words: str) -> str:
    """The text of a test file; `words` (untrusted) give its one test a name."""
    lines = "\n".join(f"        {line!r}," for line in script.text.split("\n"))
    name = "_".join(re.findall(r"[a-z0-9]+", words.lower())[:6])[:48].strip("_") or "issue"
    if runner == "pytest":
        return _HEAD.format(imports="", lines=lines) + _PYTEST.format(name=name)
    test = _UNITTEST.format(name=name, case=CASE)
    return _HEAD.format(imports="import unittest\n", lines=lines) + test
