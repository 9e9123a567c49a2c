"""The repository that every edit of the corpus is for: one file of each nature."""

_PLAIN = """\
import sys


class Till:
    def total(self, prices):
        result = 0
        for price in prices:
            result -= price
        return result

    def count(self, prices):
        return len(prices)


def main():
    return Till().count(sys.argv)
"""
_TABS = "def outer():\n\tvalue = 1\n\tif value:\n\t\treturn 'yes'\n\tother = 2\n\treturn other\n"
_UNICODE = (
    "NAME = 'Zoë'\nARROW = '→'\nSMILE = '😀'\nCOMBINED = 'e\u0301'\nRTL = 'שלום'\nEND = 'ß'\n"
)
_DEEP = "".join(f"{'    ' * n}if level_{n}:\n" for n in range(8)) + "    " * 8 + "pass\n"

TEXTS: dict[str, bytes] = {
    "plain.py": _PLAIN.encode(),
    "windows.py": _PLAIN.replace("\n", "\r\n").encode(),
    "unended.py": _PLAIN.rstrip("\n").encode(),
    "marked.py": b"\xef\xbb\xbf" + _PLAIN.encode(),
    "tabs.py": _TABS.encode(),
    "letters.py": _UNICODE.encode(),
    "old.py": "# coding: latin-1\nCITY = 'K\xf6ln'\nSTREET = 'Stra\xdfe'\nZIP = 1\n".encode(
        "latin-1"
    ),
    "deep.py": _DEEP.encode(),
    "folder with spaces/a file.py": b"first = 1\nsecond = 2\nthird = 3\nfourth = 4\n",
    "no_suffix": b"alpha\nbeta\ngamma\ndelta\n",
    "docs/changes.rst": b"Changes\n=======\n\nOne\n---\n\n* first\n\nTwo\n---\n\n* second\n",
    "trailing.txt": b"one  \ntwo\t\nthree   \nfour\n",
}
"""Files in which lines are replaced."""

OTHERS: dict[str, bytes] = {
    "empty.py": b"",
    "twins.py": b"def a():\n    return 1\n\n\ndef b():\n    return 1\n\n\ndef c():\n    return 3\n",
    "pkg/__init__.py": b"",
    "pkg/helper.py": b"def helper(value):\n    return value * 2\n",
    "pkg/other.py": b"def elsewhere(value):\n    return value - 1\n",
    "logo.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "markers.txt": b"before\n<<<<<<< SEARCH\nours\n=======\ntheirs\n>>>>>>> REPLACE\nafter\n",
    "poetry.lock": b"package = 1\n",
    "js/package-lock.json": b"{}\n",
    ".github/workflows/ci.yml": b"on: push\n",
    "secret/keys.txt": b"key\n",
}
FILES = {**TEXTS, **OTHERS}
NEVER_TOUCH = ("secret/**",)
EXECUTABLE = ("no_suffix",)
LINKS = {"link.py": "plain.py"}
SUBMODULES = {"vendor/library": "1" * 40}
