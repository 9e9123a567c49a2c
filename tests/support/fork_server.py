"""Starts Python programs by forking a process that has loaded pytest already.

Run as a script, by `tests.support.forked_python`; imports nothing of ours. A program sees its own
folder, environment, arguments, module search path and standard streams, as if it had been started
by `python`; only the modules below are loaded already.
"""

from __future__ import annotations

import atexit
import base64
import ctypes
import doctest
import gc
import importlib
import inspect
import itertools
import json
import os
import pdb
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import weakref
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from _pytest.config import default_plugins

LOADED = (atexit, base64, doctest, itertools, json, pdb, signal, tempfile, unittest, zlib)
"""What programs of our tests import; a fork need not load them again."""
INSTALLED = sys.path[1:]
"""The search path without this script's folder."""
PR_SET_CHILD_SUBREAPER = 36
"""Of linux/prctl.h: orphans become children of this process."""


def main() -> None:
    for plugin in default_plugins:
        importlib.import_module(f"_pytest.{plugin}")
    real: Any = vars(subprocess.Popen)["_execute_child"]

    def execute_child(self: Any, *arguments: Any) -> None:
        asked = inspect.signature(real).bind(self, *arguments).arguments
        if not _can_fork(asked):
            real(self, *arguments)
            return
        self.pid = _fork(asked["args"], asked["env"], asked["start_new_session"])
        self._child_created = True

    vars_of: Any = subprocess.Popen
    vars_of._execute_child = execute_child
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        while True:
            message, fds, _, _ = socket.recv_fds(control, 1, 3)
            if not message:
                return
            if os.fork() == 0:
                control.close()
                _watch(*fds)
            for fd in fds:
                os.close(fd)
            _reap()


def is_program(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork can stand for `python` with the arguments `argv[1:]`."""
    options = list(argv[1:])
    if options[:1] == ["-I"]:
        del options[0]
    if not options or (options[0] not in ("-c", "-m") and options[0].startswith("-")):
        return False
    read_at_start = {name for name in env if name.startswith(("PYTHON", "LC_", "LANG"))}
    return (
        read_at_start <= {"PYTHONPATH", "PYTHONHASHSEED", "LC_CTYPE"}
        and env.get("PYTHONHASHSEED", "0") == "0"  # the server's own
    )


def _reap() -> None:
    """Collect the watchers that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _watch(request: int, output: int, status: int) -> None:
    """Start the program that the file `request` describes; write its process ID and exit code."""
    with os.fdopen(request) as file:
        asked = json.load(file)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(asked["folder"])
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = _fork(asked["argv"], asked["env"], session=False)
    os.write(status, f"{pid}\n".encode())
    os.chdir("/")
    os.close(1)
    os.close(2)
    _, ended = os.waitpid(pid, 0)
    _end_orphans()
    os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def _end_orphans() -> None:
    """Kill what the program left running, as the end of a container does."""
    while True:
        with open("/proc/thread-self/children") as children:
            for child in children.read().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _can_fork(asked: Mapping[str, Any]) -> bool:
    argv = asked["args"]
    if isinstance(argv, (str, bytes, os.PathLike)):
        return False
    streams = ("p2cread", "c2pwrite", "errwrite")
    return (
        argv[0] == sys.executable
        and is_program(argv, asked["env"] or os.environ)
        and all(asked[stream] == -1 for stream in streams)
        and not (asked["shell"] or asked["cwd"] or asked["preexec_fn"] or asked["pass_fds"])
    )


def _fork(argv: Sequence[str], env: Mapping[str, str] | None, session: bool) -> int:
    pid = os.fork()
    if pid:
        return pid
    code, parents = 1, sys.stdout  # what stands in its buffer is not ours to write
    try:
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)
        if session:
            os.setsid()
        os.closerange(3, 256)
        if env is not None:
            os.environ.clear()
            os.environ.update({"LC_CTYPE": "C.UTF-8", **env})  # Python sets it where none is
        registry: Any = weakref.finalize
        registry._registry.clear()
        registry._registered_with_atexit = False
        run_exit_functions: Any = vars(atexit)["_run_exitfuncs"]
        vars(atexit)["_clear"]()
        code = _run(list(argv))
        vars(threading)["_shutdown"]()
        run_exit_functions()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code if parents else 1)


def _run(argv: list[str]) -> int:
    """Do what `python` does with these arguments; return the exit code."""
    sys.orig_argv[:] = argv
    isolated = argv[1] == "-I"
    kind, *rest = argv[2:] if isolated else argv[1:]
    added = [] if isolated else os.environ.get("PYTHONPATH", "").split(":")
    first = {"-c": "", "-m": os.getcwd()}.get(kind, os.path.dirname(os.path.abspath(kind)))
    sys.path[:] = [*([] if isolated else [first]), *filter(None, added), *INSTALLED]
    sys.path_importer_cache.clear()
    program = types.ModuleType("__main__")
    sys.modules["__main__"] = program
    try:
        if kind == "-m":
            sys.argv = ["-m", *rest[1:]]
            vars(runpy)["_run_module_as_main"](rest[0])
        elif kind == "-c":
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), vars(program))
        else:
            sys.argv = [kind, *rest]
            path = vars(program)["__file__"] = os.path.abspath(kind)
            with open(path, "rb") as file:
                exec(compile(file.read(), path, "exec"), vars(program))
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace else None  # without this frame
        if kind not in ("-c", "-m"):
            sys.stdout.flush()
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    main()
