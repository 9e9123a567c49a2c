"""Reads Python code that nobody trusts.

Runs in a process of its own, and imports only the standard library: our other modules would take it
many times as long as its work.
"""

import ast
import io
import json
import tokenize


def check_syntax(data: bytes) -> bytes:
    """From a JSON object of texts by path to one of the errors of those that do not compile, each
    with whether every Python refuses it: a grammar newer than this Python's may know the text.

    The texts are bytes read as Latin-1, so that Python sees their declared encoding.
    """
    found: dict[str, tuple[bool, str]] = {}
    for path, text in json.loads(data).items():
        try:
            compile(text.encode("latin-1"), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            line = (error.text or "").strip()[:200]
            sentence = f"line {error.lineno}: {error.msg}" + (f": {line}" if line else "")
            found[path] = _is_certain(error, text.encode("latin-1")), sentence
        except (ValueError, RecursionError, MemoryError, OverflowError):
            pass
    return json.dumps(found).encode()


def _is_certain(error: SyntaxError, text: bytes) -> bool:
    """Whether the error is one of indentation, of the encoding or of what the syntax means."""
    if isinstance(error, IndentationError):
        return True
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        ast.parse(text.decode(encoding))
    except UnicodeError:
        return True
    except SyntaxError as again:  # detect_encoding's have no line
        return again.lineno is None
    return True
