"""Runs a module of the trainer: `entry.py ROOT MODULE PATH...`, or, to share the work among
processes, `entry.py ROOT share TORCHRUN_OPTION... COMMAND...`."""
# pyright: reportMissingImports=false, reportUnknownVariableType=false

import ctypes
import signal
import sys
from importlib import import_module
from pathlib import Path

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    # At the end, our packages do not shadow the interpreter's own; this folder holds none of them.
    sys.path[0:1] = []
    sys.path.append(sys.argv[1])
    if sys.platform == "linux":
        # It ends with its parent, however that ends: the next call is alone.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.argv[2] == "share":
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.run import main

        try:
            main(sys.argv[3:])
        except ChildFailedError:  # it has said why
            sys.exit(1)
        sys.exit()
    module = import_module(f"pipeline.lab.learning.trainer.{sys.argv[2]}")
    sys.exit(module.main(*map(Path, sys.argv[3:])))
