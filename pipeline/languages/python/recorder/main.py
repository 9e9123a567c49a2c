"""Runs `python -m unittest`, or a repository's own test script such as Django's, and records each
test's outcome."""

import os
import runpy
import sys
import unittest

from .unittest_recorder import install

if __name__ == "__main__":
    del sys.argv[0]
    install()
    if sys.argv[0] == "unittest":
        sys.argv[0] = "python -m unittest"
        unittest.main(module=None)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")
