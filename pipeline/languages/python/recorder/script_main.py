"""Runs a repository's own test script, such as Django's, and records each test's outcome."""

import os
import runpy
import sys

from .unittest_recorder import install

if __name__ == "__main__":
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    install()
    runpy.run_path(sys.argv[0], run_name="__main__")
