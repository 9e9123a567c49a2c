"""JavaScript and TypeScript as a `Language`: how a repository is installed; the rest is data."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from pipeline.languages.described import Described
from pipeline.languages.language import Asked
from pipeline.languages.manifests import Manifests
from pipeline.languages.node.install import install_step, tool_steps
from pipeline.languages.roots import below, cut_root


class Node(Described):
    def __init__(self) -> None:
        super().__init__("pipeline.languages.node")

    def claims(self, paths: Iterable[str]) -> bool:
        known = tuple(paths)
        return "package.json" in cut_root(known, self.find_root(known))

    def summarise(self, _manifests: Manifests, /) -> str:
        return "What package.json and its lock file say."

    def steps(self, manifests: Manifests, _asked: Asked, /) -> tuple[Sequence[str], Sequence[str]]:
        root = self.find_root(manifests.names, manifests.root)
        inside = below(manifests, root)
        fits, *_ = self.choose_version(manifests)
        tools = tool_steps(inside.names, inside.texts, (*fits, self.facts.versions[0])[0])
        go = f"cd {shlex.quote(root)} && " if root else ""
        return tuple(tools), (f"{go}{install_step(inside.names, inside.texts)}",)
