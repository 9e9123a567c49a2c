"""Runs `python -m unittest` with only the wanted tests, and records each outcome."""

import sys
import unittest

from .unittest_recorder import install

if __name__ == "__main__":
    sys.argv[0] = "python -m unittest"
    install()
    unittest.main(module=None)
