"""JavaScript and TypeScript as a `Language`: how a repository is installed and tested; the rest is
data."""

import asyncio
import dataclasses
import re
import shlex
from collections.abc import Sequence

from pipeline.codebase.commit import Codebase
from pipeline.languages.described import MOST_BESIDE, Described, read_words, run_in_each
from pipeline.languages.language import Asked, Way
from pipeline.languages.manifests import Manifests
from pipeline.languages.node.install import UNLOCKED, install_step, tool_steps
from pipeline.languages.node.scripts import NODE_TEST, OTHER, Packages, Part
from pipeline.languages.roots import below, is_no_project, list_projects
from pipeline.languages.test_command import Source, TestCommand, run_in_turn
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.guest.installer.plan import GRACE

_MOST_FILES = 400
_LOCKS = r"(?:package-lock|npm-shrinkwrap)\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?"


class Node(Described):
    def __init__(self) -> None:
        super().__init__("pipeline.languages.node")

    def find_each(self, paths: Sequence[str], root: str) -> tuple[Way, list[str]]:
        """Those below another that have a lock file of their own, and tests, are no part of it."""
        way, found = super().find_each(paths, root)
        own = [one for one in list_projects(paths, _LOCKS, root) if one != root]
        if own and f"{root}/package.json".lstrip("/") in paths:
            tested = {path.rpartition("/")[0] for path in paths if self.is_runnable(path)}
            found += [one for one in own if any(f"{at}/".startswith(f"{one}/") for at in tested)]
        return way, found if len(found) <= MOST_BESIDE else found[:1]

    def summarise(self, manifests: Manifests, /) -> str:
        root = self.find_root(manifests.names, manifests.root)
        locked = root in list_projects(manifests.names, _LOCKS, root)
        return f"What package.json {'and its lock file say' if locked else 'says'}."

    def attempts(self, manifests: Manifests, asked: Asked, plain: Recipe, /) -> Sequence[Attempt]:
        """As usual; where packages are those of the commit's day, then once more with the newest:
        what it needs may be younger, or contradict itself, which npm 6 let pass."""
        found = super().attempts(manifests, asked, plain)
        if not (day := re.search(r" --before=[\d-]+", "\n".join(plain.steps))):
            return found
        again = f" || {UNLOCKED} --legacy-peer-deps"
        steps = tuple(line.replace(day[0], again) for line in found[0].recipe.steps)
        newest = dataclasses.replace(found[0].recipe, steps=steps)
        return (*found, Attempt("newest", "What package.json says, the newest packages.", newest))

    def steps(self, manifests: Manifests, asked: Asked, /) -> tuple[Sequence[str], Sequence[str]]:
        root = self.find_root(manifests.names, manifests.root)
        fits, *_ = self.choose_version(manifests)
        tools: list[str] = []
        installs: dict[str, Sequence[str]] = {}
        folders = self.find_each(manifests.names, root)[1]
        for folder in folders:
            inside = below(manifests, folder)
            tools += tool_steps(inside.names, inside.texts, (*fits, self.facts.versions[0])[0])
            install = install_step(inside.names, inside.texts, alone=len(folders) == 1)
            if install == UNLOCKED and asked.as_of:
                # https://docs.npmjs.com/cli/using-npm/config#before
                install += f" --before={asked.as_of + GRACE}"
            installs[folder] = [install]
        return tuple(dict.fromkeys(tools)), run_in_each(installs)

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
        names = tuple(codebase.files)

        def find() -> list[list[Part]]:
            root = self.find_root(names, codebase.root)
            there = Packages(names, texts, tuple(self.find_each(names, root)[1]))
            if configured:
                parts = there.list_parts([("", shlex.join(configured))])
                runner = parts[0].runner._replace(takes_paths=False) if parts else OTHER
                return [[Part("", tuple(configured), runner)]]
            job = self._find_job(manifests.texts)
            lines = job.split(self._runs_tests)[1] if job else []
            tested = [one for one in there.roots if there.has_test(one)]
            usual = [(one, "npm test") for one in tested]
            found = [there.list_parts(one) for one in (lines, usual)]
            if not any(found):
                found += [there.list_parts([(one, "npm -ws test") for one in there.roots])]
            said = [Part(folder, read_words(line), OTHER) for folder, line in lines if not found[0]]
            test = [Part(one, (there.manager_of(one), "run", "test"), OTHER) for one in tested]
            guessed = [part for one in there.roots for part in there.guess(one)]
            return [*found, guessed, said, test]

        source = "configuration" if configured else "detection"
        found = [self._join(parts, source) for parts in await asyncio.to_thread(find) if parts]
        return tuple({command.argv: command for command in found}.values())

    def _join(self, parts: Sequence[Part], source: Source) -> TestCommand:
        first, readers = parts[0], {part.runner.reader for part in parts}
        variables = self.facts.ways[-1].variables
        return TestCommand(
            argv=run_in_turn([(part.folder, part.words) for part in parts]),
            source=source,
            folder=first.folder,
            folders=tuple(dict.fromkeys(part.folder for part in parts if part.folder))
            if len(parts) > 1
            else (),
            some=(*first.words, "{path}")
            # What a shell starts gets no further words.
            if len(parts) == 1 and first.runner.takes_paths and first.words[0] != "sh"
            else (),
            takes=self._tests.pattern,
            reader=" ".join(sorted(readers - {""})),
            # What no runner of the list is may be Node's own behind a script.
            variables=variables if {NODE_TEST, OTHER} & {part.runner for part in parts} else {},
        )
