"""Diffs for the tests, made from texts before and after."""

import difflib
from textwrap import dedent


def diff_of(before: str, after: str, path: str = "shop/total.py", context: int = 3) -> str:
    lines = difflib.unified_diff(
        dedent(before).splitlines(), dedent(after).splitlines(), f"a/{path}", f"b/{path}",
        n=context, lineterm="",
    )  # fmt: skip
    return f"diff --git a/{path} b/{path}\n" + "\n".join(lines) + "\n"


def added_file(path: str, text: str) -> str:
    lines = [f"+{line}\n" for line in text.splitlines()]
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{''.join(lines)}"
    )


def removed_file(path: str, text: str) -> str:
    lines = [f"-{line}\n" for line in text.splitlines()]
    return (
        f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n"
        f"@@ -1,{len(lines)} +0,0 @@\n{''.join(lines)}"
    )
