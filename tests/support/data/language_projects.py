"""Small repositories in other languages than Python, each with a fault."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Project:
    """A small repository with a fault, what mends it, and scripts that judge it."""

    name: str
    """Of its folder in `projects`."""
    source: str
    wrong: str
    right: str
    failing: str
    """The test that only the right code passes."""
    script: str
    broken: str
    """A script with a mistake of its own."""
    forged: tuple[str, str]
    """What ends every program that uses the code as if all were right, and what it replaces."""
    spoilt: str = "exports.total = (prices => ;\n"
    """The source with a mistake in its first line, in a language that is not compiled."""
    setup: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        folder = Path(__file__).parent / "projects" / self.name
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}

    def edit(self, before: str, after: str) -> str:
        old = self.files[self.source].splitlines()
        new = self.files[self.source].replace(before, after).splitlines()
        body = "".join([f"-{line}\n" for line in old] + [f"+{line}\n" for line in new])
        counts = f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        return f"--- a/{self.source}\n+++ b/{self.source}\n{counts}{body}"


def _load() -> dict[str, Project]:
    path = Path(__file__).with_suffix(".toml")
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    found: dict[str, Project] = {}
    for name, table in tables.items():
        fields: dict[str, Any] = {**tables.get(table.pop("like", ""), {}), **table}
        fields["forged"] = tuple(fields["forged"])
        found[name] = Project(name, **fields)
    return found


PROJECTS = _load()
