"""Glob patterns of paths, in the syntax of `.github/capuchin.yml`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate


class Globs:
    """`*` matches slashes, a folder's pattern covers its contents, and case does not matter."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._compiled = [(pattern, _compile(pattern)) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def first_match(self, path: str) -> str | None:
        """The first pattern that covers `path`, in its original form."""
        folded = path.casefold()
        return next((text for text, regex in self._compiled if regex.fullmatch(folded)), None)


def _compile(pattern: str) -> re.Pattern[str]:
    pattern = pattern.casefold().removeprefix("./").removeprefix("/").rstrip("/")
    forms = (pattern, f"{pattern}/*", pattern.replace("**/", ""))
    # An empty pattern covers nothing, like an empty line of a .gitignore.
    return re.compile("|".join(translate(form) for form in forms if pattern and form) or r"(?!)")
