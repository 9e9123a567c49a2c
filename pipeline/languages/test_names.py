"""Names of tests: stable between runs, and matched by what people and models call them.

The recorder in the sandbox contains a copy of this file: standard library, Python 3.6 and newer.
"""

import re
from collections.abc import Mapping, Sequence

LONGEST = 500
"""Characters of a test's name."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_CLOCK = re.compile(r"\d{1,2}:\d\d:\d\d(?:\.\d+)?")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def stable_name(name: str) -> str:
    """A test's name on one line, without addresses of objects and times of day.

    These differ between runs.
    """
    name = _CLOCK.sub("0:00:00", _ADDRESS.sub("0x", name))
    return _UNPRINTABLE.sub(lambda m: ascii(m.group())[1:-1], name)[:LONGEST]


def is_named(test: str, path: str, named: "Mapping[str, Sequence[str]]") -> bool:
    """Whether `named` asks for a test of the file `path`; see `RequestedTests.named`."""
    wanted = named.get(path)
    if not wanted:
        return wanted is not None or not named
    inside = test.partition("::")[2]
    plain = inside.partition("[")[0].split("::") if inside else test.split(".")[-2:]
    for name in wanted:
        words = name.split("::")
        starts = range(len(plain) - len(words) + 1)
        if inside == name or any(plain[at : at + len(words)] == words for at in starts):
            return True
    return False
