"""Diffs for the tests, made from texts before and after."""

import difflib
from textwrap import dedent


def diff_of(before: str, after: str, path: str = "shop/total.py", context: int = 3) -> str:
    lines = difflib.unified_diff(
        dedent(before).splitlines(), dedent(after).splitlines(), f"a/{path}", f"b/{path}",
        n=context, lineterm="",
    )  # fmt: skip
    return f"diff --git a/{path} b/{path}\n" + "\n".join(lines) + "\n"
