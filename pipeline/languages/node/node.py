"""JavaScript and TypeScript as a `Language`: how a repository is installed and tested; the rest is
data."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shlex
from collections.abc import Iterable, Sequence

from pipeline.codebase.commit import Codebase
from pipeline.languages.described import Described, read_words
from pipeline.languages.language import Asked
from pipeline.languages.manifests import Manifests
from pipeline.languages.node.install import UNLOCKED, install_step, tool_steps
from pipeline.languages.node.scripts import NODE_TEST, OTHER, Packages, Part
from pipeline.languages.roots import below, cut_root, is_no_project
from pipeline.languages.test_command import TestCommand, run_in_turn
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.frozen import replace
from sandbox.guest.installer.plan import GRACE

_MOST_FILES = 400


class Node(Described):
    def __init__(self) -> None:
        super().__init__("pipeline.languages.node")

    def claims(self, paths: Iterable[str]) -> bool:
        known = tuple(paths)
        return "package.json" in cut_root(known, self.find_root(known))

    def summarise(self, _manifests: Manifests, /) -> str:
        return "What package.json and its lock file say."

    def attempts(self, manifests: Manifests, asked: Asked, plain: Recipe, /) -> Sequence[Attempt]:
        """As usual; where packages are those of the commit's day, then once more with the newest:
        what it needs may be younger."""
        found = super().attempts(manifests, asked, plain)
        if not (day := re.search(r" --before=(\S+)", "\n".join(plain.steps))):
            return found
        steps = tuple(line.replace(day[0], "") for line in found[0].recipe.steps)
        newest = dataclasses.replace(found[0].recipe, steps=steps)
        return (*found, Attempt("newest", "What package.json says, the newest packages.", newest))

    def steps(self, manifests: Manifests, asked: Asked, /) -> tuple[Sequence[str], Sequence[str]]:
        root = self.find_root(manifests.names, manifests.root)
        inside = below(manifests, root)
        fits, *_ = self.choose_version(manifests)
        tools = tool_steps(inside.names, inside.texts, (*fits, self.facts.versions[0])[0])
        go = f"cd {shlex.quote(root)} && " if root else ""
        install = install_step(inside.names, inside.texts)
        if install == UNLOCKED and asked.as_of:
            # https://docs.npmjs.com/cli/using-npm/config#before
            install += f" --before={asked.as_of + GRACE}"
        return tuple(tools), (f"{go}{install}",)

    async def find_commands(
        self, codebase: Codebase, configured: Sequence[str] = ()
    ) -> Sequence[TestCommand]:
        """The runners behind what CI or `npm test` starts, then the one that the project depends
        on, then the script as it stands."""
        manifests = await self._read_manifests(codebase)
        told = [
            path
            for path in codebase.files
            if self.is_manifest(path.rpartition("/")[2])
            and not path.endswith((".lock", "-lock.json"))
            if not is_no_project(path.rpartition("/")[0])
        ]
        texts = {**manifests.texts, **await codebase.read_texts(told[:_MOST_FILES])}
        root = self.find_root(codebase.files, codebase.root)
        there = Packages(tuple(codebase.files), texts, root)
        if configured:
            parts = await asyncio.to_thread(there.list_parts, [("", shlex.join(configured))])
            runner = parts[0].runner._replace(takes_paths=False) if parts else OTHER
            own = self._join([Part("", tuple(configured), runner)])
            return (replace(own, source="configuration"),)

        def find() -> list[list[Part]]:
            job = self._find_job(manifests.texts)
            lines = job.split(self._runs_tests)[1] if job else []
            usual = [(root, "npm test")] if there.has_test else []
            found = [there.list_parts(one) for one in (lines, usual)]
            everywhere = [] if any(found) else there.list_parts([(root, "npm -ws test")])
            said = [Part(folder, read_words(line), OTHER) for folder, line in lines if not found[0]]
            test = [Part(root, (there.manager, "run", "test"), OTHER)] if usual else []
            return [*found, everywhere, there.guess(), said, test]

        found = [self._join(parts) for parts in await asyncio.to_thread(find) if parts]
        return tuple({command.argv: command for command in found}.values())

    def _join(self, parts: Sequence[Part]) -> TestCommand:
        first, readers = parts[0], {part.runner.reader for part in parts}
        variables = self.facts.ways[-1].variables
        return TestCommand(
            argv=run_in_turn([(part.folder, part.words) for part in parts]),
            source="detection",
            folder=first.folder,
            folders=tuple(dict.fromkeys(part.folder for part in parts if part.folder))
            if len(parts) > 1
            else (),
            some=(*first.words, "{path}") if len(parts) == 1 and first.runner.takes_paths else (),
            takes=self._tests.pattern,
            reader=" ".join(sorted(readers - {""})),
            # What no runner of the list is may be Node's own behind a script.
            variables=variables if {NODE_TEST, OTHER} & {part.runner for part in parts} else {},
        )
