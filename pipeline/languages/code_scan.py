"""What a scan of source files finds: functions, and which file imports which."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CodeScan:
    """The scanned code by path; files that do not parse are missing."""

    functions: Mapping[str, Sequence[tuple[int, int]]] = field(
        default_factory=dict[str, Sequence[tuple[int, int]]]
    )
    """First line (a decorator's, if it has one) and last, from 1."""
    importers: Mapping[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The files that import a file."""
    loaders: Mapping[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The files that run a file, without using it, when they import another: Python's packages."""

    def distances(self, touched: Iterable[str]) -> dict[str, int]:
        """The steps from each importing file to one of `touched`; 0 for those themselves.

        That a file is only run counts if it is touched itself. Otherwise all tests of a package
        would be equally near.
        """
        found = {path: 0 for path in touched if path in self.functions}
        waiting = deque(found)
        while waiting:
            path = waiting.popleft()
            importers = set(self.importers.get(path, ()))
            if found[path] == 0:
                importers |= self.loaders.get(path, set())
            for importer in sorted(importers - found.keys()):
                found[importer] = found[path] + 1
                waiting.append(importer)
        return found
