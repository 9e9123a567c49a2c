"""The test runners behind the scripts of `package.json`, which people and CI start.

`xo && tsc && ava`, `run-s lint test-node`, `turbo run test`: a script may check style and types
first and then run tests, in any package of the tree. Runners are told to report by name; what only
checks is left out.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, NamedTuple

from pipeline.languages.ci import follow, split_commands
from pipeline.languages.manifests import entries, parse_json, parse_yaml, strings, walk_scalars
from pipeline.languages.node.install import package_manager
from pipeline.languages.roots import cut_root, list_members

MOST_PARTS: Final = 40
_MOST_SCRIPTS: Final = 400
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=.*")
_MANAGERS: Final = ("npm", "pnpm", "yarn", "bun")
_IN_TURN: Final = ("run-s", "run-p", "npm-run-all", "npm-run-all2", "concurrently", "wireit")
_EVERYWHERE: Final = re.compile(
    r"^(lerna|turbo|nx|wsrun|ultra|oao|rush)\b|\s(-r|--recursive|-ws|--workspaces|--filter|-F|workspaces)\b"
)
"""What runs a script in all packages."""
_BUILDS: Final = re.compile(
    r"^(?!.*--noEmit)((npm|pnpm|yarn|bun)( run)? )?[\w:-]*"
    r"(build|compile|bundle|transpile|tsc|babel|rollup|webpack|esbuild|tsup|swc|generate|codegen)\b"
)
"""What tests may need before they run."""


class ScriptRunner(NamedTuple):
    program: re.Pattern[str]
    options: tuple[str, ...] = ()
    reader: str = "lines"
    """Of `readers.READERS`; empty: JUnit files."""
    takes_paths: bool = False


_JUNIT = ("--reporter=default", "--reporter=junit", "--outputFile=capuchin-junit.xml")
RUNNERS: Final = (
    ScriptRunner(re.compile(r"vitest"), _JUNIT, "", True),
    ScriptRunner(re.compile(r"jest"), ("--json", "--outputFile=capuchin-jest.json"), "jest", True),
    ScriptRunner(re.compile(r"_?mocha|ts-mocha|mocha\.[cm]?js"), ("--reporter", "tap")),
    ScriptRunner(re.compile(r"ava"), ("--tap",)),
    ScriptRunner(re.compile(r"tap"), ("--reporter=tap",)),
    ScriptRunner(re.compile(r"tape|qunit|jasmine|uvu|zora|pta")),
)
BUN_TEST: Final = ScriptRunner(
    re.compile(r"(?!)"), ("--reporter=junit", "--reporter-outfile=capuchin-junit.xml"), "", True
)
NODE_TEST: Final = ScriptRunner(re.compile(r"--test"))
OTHER: Final = ScriptRunner(re.compile(r"(?!)"), reader="lines")
"""What a script may start besides: its whole output is read."""
_WRAPPERS: Final = (*_MANAGERS, "npx", "bunx", "c8", "nyc", "dotenv", "exec", "time", "xvfb-run")
_STARTERS: Final = ("node", "tsx", "ts-node", "bun")


class Part(NamedTuple):
    """One start of a runner."""

    folder: str
    """From the tree's root; empty for it."""
    words: tuple[str, ...]
    runner: ScriptRunner


@dataclass(frozen=True)
class Packages:
    """The packages of a tree, by the folders of their `package.json`."""

    names: Sequence[str]
    texts: Mapping[str, str]
    """By path: every `package.json`, and what says which package manager there is."""
    roots: tuple[str, ...] = ("",)
    """The folders of the projects: of several, none is a part of another's workspace."""

    def list_parts(self, lines: Sequence[tuple[str, str]]) -> list[Part]:
        """The starts of runners behind command lines, each with its folder."""
        seen: set[Any] = set()
        found = (part for folder, line in lines for part in self._expand(folder, line, "", seen))
        return list(dict.fromkeys(found))[:MOST_PARTS]

    def guess(self, root: str) -> list[Part]:
        """The start of the runner that a project depends on."""
        package = self._read(root)
        known = {**entries(package.get("devDependencies")), **entries(package.get("dependencies"))}
        for name in ("vitest", "jest", "mocha", "ava", "tap"):
            if name in known:
                words = [name, "run"] if name == "vitest" else [name]
                start = f"{root}/" if root else ""
                unit = any(path.startswith(f"{start}test/unit/") for path in self.names)
                is_told = self._is_mocha_told(root)
                words += ["test/unit/**/*.js"] if name == "mocha" and unit and not is_told else []
                return [self._start(root, words)]
        return []

    def _is_mocha_told(self, folder: str) -> bool:
        """Whether files may say which tests Mocha runs besides those that its command names."""
        return "mocha" in self._read(folder) or any(".mocharc" in path for path in self.names)

    def has_test(self, folder: str) -> bool:
        return "test" in self._scripts(folder)

    def manager_of(self, folder: str) -> str:
        """The package manager of the project that holds a folder."""
        return self._managers[self._project_of(folder)]

    @cached_property
    def _managers(self) -> dict[str, str]:
        return {
            root: package_manager(
                self._read(root),
                cut_root(self.names, root),
                {path.removeprefix(f"{root}/"): text for path, text in self.texts.items()},
            )[0]
            for root in self.roots
        }

    def _project_of(self, folder: str) -> str:
        holding = (one for one in self.roots if not one or f"{folder}/".startswith(f"{one}/"))
        return max(holding, key=len, default=self.roots[0])

    @cached_property
    def _members(self) -> dict[str, list[str]]:
        return {root: self._list_members(root) for root in self.roots}

    def _list_members(self, root: str) -> list[str]:
        """The folders of the packages in the workspace of a project.

        https://docs.npmjs.com/cli/using-npm/workspaces, https://pnpm.io/pnpm-workspace_yaml
        """
        start = f"{root}/" if root else ""
        stated = self._read(root).get("workspaces")
        told = parse_yaml(self.texts.get(f"{start}pnpm-workspace.yaml", "")).get("packages")
        patterns = [
            *strings(entries(stated).get("packages") if isinstance(stated, dict) else stated),
            *walk_scalars(told),
        ]
        wanted = [one for one in patterns if one[:1] != "!"]
        left_out = [one[1:] for one in patterns if one[:1] == "!"]
        folders = (
            path.removesuffix("/package.json").removeprefix(start)
            for path in self.texts
            if path.startswith(start) and path.endswith("/package.json")
        )
        return [f"{start}{one}" for one in list_members(folders, wanted, left_out)]

    def _read(self, folder: str) -> dict[str, Any]:
        return self._parsed.get(f"{folder}/package.json".lstrip("/"), {})

    @cached_property
    def _parsed(self) -> dict[str, dict[str, Any]]:
        told = {path: text for path, text in self.texts.items() if path.endswith("package.json")}
        return {path: parse_json(text) for path, text in told.items()}

    def _scripts(self, folder: str) -> dict[str, str]:
        scripts = entries(self._read(folder).get("scripts"))
        return {name: one for name, one in scripts.items() if isinstance(one, str)}

    def _expand(
        self, folder: str, line: str, script: str, seen: set[Any], more: Sequence[str] = ()
    ) -> Iterator[Part]:
        """The starts behind a line; `script`: its name, if it is a whole script, and `more` what it
        is given. Each is expanded once."""
        split = [one.split("|")[0].strip() for one in split_commands(line[:2000])]
        commands, _ = follow(folder, filter(None, split))
        before: dict[str, list[str]] = defaultdict(list)
        for number, (place, command) in enumerate(commands, 1):
            is_whole = len(split) == 1 and "|" not in line and place == folder
            given = more if number == len(commands) else ()
            name = script if is_whole else ""
            starts = list(self._expand_command(place, command, name, seen, given))
            yield from (_build_first(before[place], part) for part in starts)
            if not starts and _BUILDS.match(command):
                before[place].append(self._exec(place, command))

    def _expand_command(
        self, folder: str, command: str, script: str, seen: set[Any], more: Sequence[str]
    ) -> Iterator[Part]:
        try:
            words = [*shlex.split(command), *more]
        except ValueError:
            return
        given: list[str] = []
        while words and (_VARIABLE.fullmatch(words[0]) or words[0] in ("cross-env", "env")):
            given += [words[0]] if "=" in words[0] else []
            words = words[1:]
        if not words:
            return
        if _EVERYWHERE.search(" ".join(words)):
            inner = [
                (member, next((one for one in reversed(words) if one in own), "test"))
                for member in self._members[self._project_of(folder)]
                for own in [self._scripts(member)]
            ]
        else:
            inner = [(folder, name) for name in _scripts_named(words, self._scripts(folder))]
        rest = tuple(words[words.index("--") + 1 :]) if "--" in words else ()
        for place, name in inner:
            key, text = (place, name, rest, *given), self._scripts(place).get(name)
            if key not in seen and text and len(seen) < _MOST_SCRIPTS:
                seen.add(key)
                for part in self._expand(place, text, name, seen, rest):
                    yield _set(given, part)
        if not inner and (at := _find_program(words)) is not None:
            start = self._start(folder, words[at:], script, more)
            yield start if script else _set(given, start)

    def _start(
        self, folder: str, words: Sequence[str], script: str = "", more: Sequence[str] = ()
    ) -> Part:
        """The start of a runner by the script that is nothing else, which gets `more`; otherwise by
        its words."""
        runner = _runner_of(words)
        names_others = len(words) > 1 or runner is RUNNERS[-1] or self._is_mocha_told(folder)
        runner = runner._replace(takes_paths=runner.takes_paths or not names_others)
        watches = runner.program.fullmatch("vitest") and "run" not in words
        options = [*(["--run"] if watches else []), *runner.options]
        if script:
            manager = self.manager_of(folder)
            is_short = script == "test" and manager != "bun"  # that is bun's own runner
            start = [manager, "test"] if is_short else [manager, "run", script]
            dashes = ["--"] if manager == "npm" and (options or more) else []
            return Part(folder, (*start, *dashes, *more, *options), runner)
        line = self._exec(folder, shlex.join([*words, *options]))
        return Part(folder, tuple(shlex.split(line)), runner)

    def _exec(self, folder: str, line: str) -> str:
        """A line that starts a program of the packages."""
        manager = self.manager_of(folder)
        first = line.split(" ")[0]
        if first in _MANAGERS:
            return line
        if manager == "yarn":
            return f"yarn {line}" if first == "node" else f"yarn run {line}"
        if first == "node":
            return line
        return {"pnpm": "pnpm exec ", "bun": "bun run "}.get(manager, "npx --no-install ") + line


def _set(given: Sequence[str], part: Part) -> Part:
    """The part with the variables that stand before what starts it."""
    pairs = " ".join(
        f"{name}={shlex.quote(value)}" for name, _, value in (one.partition("=") for one in given)
    )
    line = f"{pairs} {shlex.join(part.words)}"
    return part._replace(words=("sh", "-c", line)) if given else part


def _build_first(before: Sequence[str], part: Part) -> Part:
    if not before:
        return part
    line = " && ".join([*before, shlex.join(part.words)])
    return part._replace(words=("sh", "-c", line))


def _scripts_named(words: Sequence[str], scripts: Mapping[str, str]) -> list[str]:
    """The scripts that a command starts, in order."""
    first, rest = words[0].rpartition("/")[2], [one for one in words[1:] if one[:1] != "-"]
    if first == "npx" and rest and rest[0] in _IN_TURN:
        first, rest = rest[0], rest[1:]
    if first in _IN_TURN:
        patterns = [
            re.sub(r"^(npm|pnpm|yarn|bun):|^(npm|pnpm|yarn|bun) run ", "", one) for one in rest
        ]
        return [
            name
            for pattern in patterns
            for name in scripts
            if name == pattern or ("*" in pattern and _fits(name, pattern))
        ]
    if first not in _MANAGERS or words[:2] == ["bun", "test"]:
        return []
    rest = [one for one in rest if one not in ("run", "run-script", "exec")]
    named = "test" if rest[:1] == ["t"] else (rest or [""])[0]
    return [named] if named in scripts else []


def _find_program(words: Sequence[str]) -> int | None:
    """Where a command starts a runner, behind what wraps it, such as `c8`."""
    inner = range(len(words)) if words[0].rpartition("/")[2] in _WRAPPERS else range(1)
    own = (at for at in inner if words[at][:1] != "-")
    return next((at for at in own if _runner_of(words[at:]) is not OTHER), None)


def _runner_of(words: Sequence[str]) -> ScriptRunner:
    if "--test" in words and words[0] in _STARTERS:
        return NODE_TEST
    if words[:2] == ["bun", "test"]:
        return BUN_TEST
    if words[:2] == ["react-scripts", "test"]:
        return RUNNERS[1]
    programs = [word.rpartition("/")[2] for word in words if word[:1] != "-"]
    inner = programs if words[0] in _STARTERS else programs[:1]
    return next((one for one in RUNNERS for name in inner if one.program.fullmatch(name)), OTHER)


def _fits(name: str, pattern: str) -> bool:
    """Whether a script has a name like `test:*`, as npm-run-all reads that: `*` holds no colon."""
    parts, wanted = name.split(":"), pattern.replace("**", "*").split(":")
    same = len(parts) == len(wanted) or ("**" in pattern and len(parts) > len(wanted))
    return same and all(map(fnmatchcase, parts, wanted))
