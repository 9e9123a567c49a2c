"""Edits of the small repository with a bug, and a script that judges them."""

from collections.abc import Mapping
from typing import Final

from tests.e2e.shop import BODY, FILES, TITLE

__all__ = ["BODY", "FILES", "TITLE"]

WITHOUT_PYTHON: Final[Mapping[str, str]] = {"index.html": "x\n"}
"""Of which every run ends soon, without a fix."""
SCRIPT: Final = (
    "import sys\nfrom shop.till import total\n\nsys.exit(0 if total(1, 2) == 3 else 2)\n"
)
"""Ends with 0 where the issue is fixed and with 2 where not."""


def diff(line: str) -> str:
    """An edit of the line with the bug."""
    return (
        "diff --git a/shop/till.py b/shop/till.py\n--- a/shop/till.py\n+++ b/shop/till.py\n"
        f"@@ -1,4 +1,4 @@\n def total(a, b):\n-    return a - b\n+    {line}\n \n \n"
    )
