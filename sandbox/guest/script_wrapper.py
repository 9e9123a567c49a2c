"""Runs a script as Python would, and prints a nonce behind its verdict.

Started by `python -c` inside the sandbox, so it imports none of our modules.
"""

import sys

# The current folder is the checkout: no file of an edit may take the place of these modules, and
# read the nonce before it is taken away.
FROM_HERE = sys.path[:1] == [""]
if FROM_HERE:
    del sys.path[0]

import fcntl  # noqa: E402
import os  # noqa: E402
import types  # noqa: E402


def run(script: str, nonce_path: str) -> None:
    with open(nonce_path, encoding="ascii") as file:
        nonce = file.read()
    try:
        os.unlink(nonce_path)
    except OSError:
        pass
    # A copy of the descriptor: the script may close or redirect its own. Its number is high, so
    # that scripts find the low ones as usual.
    output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 200)
    sys.argv[:] = [script]
    if FROM_HERE:
        sys.path.insert(0, os.path.dirname(script))
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable, script]
    ours = sys.modules["__main__"]  # kept: what it holds is still needed at the end
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = script
    main.__dict__["__builtins__"] = ours.__dict__["__builtins__"]
    code = 0
    try:
        with open(script, "rb") as file:
            source = file.read()
        exec(compile(source, script, "exec"), main.__dict__)
    except SystemExit as end:
        given = end.code
        if given is not None:
            code = given & 255 if isinstance(given, int) else 1
        _print(output, nonce, code)
        raise
    except Exception as error:
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace else None
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    _print(output, nonce, code)
    sys.exit(code)


def _print(output: int, nonce: str, code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue
    try:
        os.write(output, ("\n%s %d\n" % (nonce, code)).encode("ascii"))
    except OSError:
        pass  # the script closed this one, too: its verdict does not count


run(*sys.argv[1:3])
