"""Records tests from inside the interpreter (runs in the sandbox; Python 3.6 and newer)."""
