"""Python as a `Language`; the modules beside this one do the work."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import FileDiff
from pipeline.data.types import Reproduction, TestScript
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import Conventions
from pipeline.languages.language import Asked, Collected, Identity, Language
from pipeline.languages.manifests import Manifests
from pipeline.languages.python import (
    commands,
    controls,
    conventions,
    file_runner,
    import_graph,
    install,
    interpreter,
    metadata,
    packages,
    requirements,
    roots,
    source,
    suspicious,
    variables,
)
from pipeline.languages.python.ci import WORKFLOW
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.import_check import WALL_FACTOR
from pipeline.languages.roots import below
from pipeline.languages.test_command import TestCommand
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.layout import CHECKOUT
from sandbox.program import NO_ENV, Program, python_script

IMPORT_SECONDS: Final = 60.0
"""Processor time; on a busy host the imports may take `WALL_FACTOR` times as long."""


class Python(Language):
    interpreter = "python"

    def __init__(self) -> None:
        super().__init__(FACTS)

    def has_manifest(self, paths: Iterable[str]) -> bool:
        """Whether a file at the root says how this Python is installed."""
        return any("/" not in path and self.is_manifest(path) for path in paths)

    def may_state_version(self, path: str) -> bool:
        return metadata.may_state_version(path)

    def identify(self, manifests: Manifests, described: str) -> Identity:
        manifests = below(manifests, roots.find_root(manifests.names, manifests.root))
        name = metadata.distribution_name(manifests.texts)
        return Identity(name, *metadata.find_version(name, manifests.texts, described))

    def attempts(self, manifests: Manifests, asked: Asked, plain: Recipe) -> Sequence[Attempt]:
        root = roots.find_root(manifests.names, manifests.root)
        return install.list_attempts(below(manifests, root), asked, plain, root)

    def steps(
        self, manifests: Manifests, asked: Asked, *, alone: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        root = roots.find_root(manifests.names, manifests.root)
        manifests = below(manifests, root)
        python = interpreter.find_python_requirement(manifests.texts, configured=asked.version)
        steps = [*requirements.python_steps(manifests.names, manifests.texts)]
        if root:
            steps = [f"cd {shlex.quote(root)} && {step}" for step in steps]
        tools = (python.to_step(),) if python else ()
        return tools, tuple(steps) if alone else (requirements.PYTEST,)

    def steps_in_dockerfile(self, manifests: Manifests) -> Sequence[str]:
        return requirements.dockerfile_steps(manifests)

    async def distribution(self, codebase: Codebase) -> str:
        return await packages.find_distribution_name(codebase)

    async def reads_version_from_git(self, codebase: Codebase) -> bool:
        return await packages.reads_version_from_git(codebase)

    def refuse_version(self, version: str) -> str:
        return interpreter.refuse_version(version)

    async def variables(self, codebase: Codebase) -> Mapping[str, str]:
        workflows = sorted(filter(WORKFLOW.fullmatch, codebase.files))[:20]
        root = roots.find_root(codebase.files, codebase.root)
        start = f"{root}/" if root else ""
        routines = (f"{start}{name}" for name in commands.ROUTINES)
        read = await codebase.read_texts((*routines, *workflows), largest=64 * 1024)
        texts = {path.removeprefix(start): text for path, text in read.items()}
        found = await asyncio.to_thread(variables.find_variables, texts)
        if root:  # its tests import it as from its own folder
            found.setdefault("PYTHONPATH", f"{CHECKOUT}/{root}")
        return found

    async def packages(self, codebase: Codebase) -> tuple[str, ...]:
        root = roots.find_root(codebase.files, codebase.root)
        start = f"{root}/" if root else ""
        inside = [path.removeprefix(start) for path in codebase.files if path.startswith(start)]
        texts = await packages.read_manifests(codebase)
        members = roots.find_members(inside, texts)
        return packages.find_packages(inside, texts, members)

    def load_program(self, packages: Sequence[str], mark: str) -> Program | None:
        script = resources.files("pipeline.languages.python") / "import_check.py"
        request = {"names": packages, "mark": mark, "seconds": IMPORT_SECONDS}
        argv = ("python", "-I", "-c", script.read_text("utf-8"), json.dumps(request))
        # Longer than the imports, so that the script itself reports.
        return Program(argv, seconds=WALL_FACTOR * IMPORT_SECONDS + 10)

    def collect_program(self, command: TestCommand) -> Program | None:
        at = commands.find_runner(command.argv)
        if command.kind != "pytest":
            return None
        argv, env = (*command.argv, "--collect-only"), dict[str, str]()
        if at is None:
            argv, env = command.argv, {"PYTEST_ADDOPTS": "--collect-only"}
        # Some 100,000 tests; of a list with its middle left out, few files would be known.
        return Program(argv, seconds=45, output_bytes=8 * 1024 * 1024, env=env)

    def read_collection(self, output: str, paths: Iterable[str]) -> Collected:
        return packages.parse_collection(output, paths)

    def is_runnable(self, path: str) -> bool:
        return conventions.is_runnable(path)

    async def conventions(self, codebase: Codebase) -> Conventions | None:
        return await conventions.detect_conventions(codebase)

    async def read_test_files(
        self, codebase: Codebase, exclude: Sequence[str] = ()
    ) -> dict[str, str]:
        return await conventions.read_test_files(codebase, exclude)

    async def find_commands(
        self, codebase: Codebase, configured: Sequence[str] = ()
    ) -> Sequence[TestCommand]:
        return await commands.find_commands(codebase, configured)

    async def scan_code(self, texts: Mapping[str, str]) -> CodeScan:
        return await import_graph.scan_code(texts)

    def find_added_tests(self, diff: str, path: str, text: str) -> tuple[str, ...]:
        return source.find_added_tests(diff, path, text)

    @property
    def script_suffix(self) -> str:
        return ".py"

    def script_program(
        self,
        text: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Program:
        return python_script(text, diffs=diffs, seconds=seconds, env=env)

    def file_runners(
        self, commands: Sequence[TestCommand], conventions: Conventions
    ) -> Sequence[file_runner.PythonRunner]:
        return file_runner.find_file_runners(commands, conventions)

    def drop_options(self, command: Sequence[str]) -> list[str]:
        return file_runner.drop_options(command)

    def advise_command(self, test: Reproduction, names: Sequence[str]) -> str:
        return file_runner.advise_command(test, names)

    def write_control_script(self, text: str, diff: str, nonce: str) -> str:
        return controls.write_control_script(text, diff, nonce)

    def write_failing_test(
        self, diff: str, conventions: Conventions, taken: Collection[str]
    ) -> str:
        return controls.write_failing_test(diff, conventions, taken)

    def is_source(self, path: str) -> bool:
        return path.endswith(".py")

    def find_startup_file(self, diff: str) -> str:
        return controls.find_startup_file(diff)

    def build_test_script(
        self, files: Mapping[str, bytes], conventions: Conventions
    ) -> tuple[TestScript | None, str]:
        return source.build_test_script(files, conventions)

    def to_test_script(
        self, name: str, text: str, conventions: Conventions, taken: Collection[str]
    ) -> TestScript:
        return source.to_test_script(name, text, conventions, taken)

    async def build_failing_script(self, text: str, nonce: str) -> str:
        return await source.build_failing_script(text, nonce)

    async def make_tests_fail(self, path: str, text: str, nonce: str) -> bytes:
        return await source.make_tests_fail(path, text, nonce)

    def write_control(self, kind: str, beside: str, nonce: str) -> tuple[str, bytes] | None:
        return source.write_control(kind, beside, nonce)

    def wrap_script(self, script: TestScript, style: str, words: str) -> str:
        return source.wrap_script(script, style, words)

    async def find_syntax_errors(self, files: Mapping[str, bytes]) -> dict[str, str]:
        return await source.find_syntax_errors(files)

    def spoil(self, diff: str) -> tuple[str, ...]:
        return source.spoil(diff)

    def find_suspicious(self, file: FileDiff) -> Iterator[str]:
        return suspicious.find_suspicious(file)
