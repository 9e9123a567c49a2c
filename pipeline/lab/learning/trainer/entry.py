"""Runs a module of the trainer: `entry.py ROOT MODULE PATH...`."""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # At the end, our packages do not shadow the interpreter's own; this folder holds none of them.
    sys.path[0:1] = []
    sys.path.append(sys.argv[1])
    module = import_module(f"pipeline.lab.learning.trainer.{sys.argv[2]}")
    sys.exit(module.main(*map(Path, sys.argv[3:])))
