"""Python as a `Language`; the modules beside this one do the work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.languages.language import Asked, Identity, Language
from pipeline.languages.manifests import CI_FILE, Manifests
from pipeline.languages.python import (
    commands,
    controls,
    conventions,
    file_runner,
    import_graph,
    install,
    interpreter,
    metadata,
    origins,
    packages,
    requirements,
    roots,
    source,
    suspicious,
    variables,
)
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.import_check import WALL_FACTOR
from pipeline.languages.roots import below, cut_root
from pipeline.languages.test_command import TestCommand
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.layout import CHECKOUT
from sandbox.program import Execution, Program, python_script

IMPORT_SECONDS: Final = 60.0
"""Processor time; on a busy host the imports may take `WALL_FACTOR` times as long."""


class Python(Language):
    interpreter = "python"

    def __init__(self) -> None:
        super().__init__(FACTS)
        self.may_state_version = metadata.may_state_version
        self.steps_in_dockerfile = requirements.dockerfile_steps
        self.distribution = packages.find_distribution_name
        self.reads_version_from_git = packages.reads_version_from_git
        self.refuse_version = interpreter.refuse_version
        self.read_collection = packages.parse_collection
        self.is_runnable = conventions.is_runnable
        self.read_test_files = conventions.read_test_files
        self.conventions = conventions.detect_conventions
        self.find_commands = commands.find_commands
        self.scan_code = import_graph.scan_code
        self.find_added_tests = source.find_added_tests
        self.script_program = python_script
        self.file_runners = file_runner.find_file_runners
        self.drop_options = file_runner.drop_options
        self.advise_command = file_runner.advise_command
        self.write_control_script = controls.write_control_script
        self.write_failing_test = controls.write_failing_test
        self.write_control = controls.write_control
        self.find_startup_file = controls.find_startup_file
        self.build_test_script = source.build_test_script
        self.to_test_script = source.to_test_script
        self.build_failing_script = source.build_failing_script
        self.change_expectations = source.change_script
        self.make_tests_fail = source.make_tests_fail
        self.wrap_script = source.wrap_script
        self.find_syntax_errors = source.find_syntax_errors
        self.find_suspicious = suspicious.find_suspicious

    def shows_failure(self, run: Execution) -> bool:
        """pytest exits with 3 after an error of its own, with 4 for wrong arguments (such as a
        missing file) and with 5 when it collects no test; unittest exits with 5 for that, too.
        Source: docs.pytest.org, "Exit codes"; docs.python.org, unittest."""
        return run.exit_code in (1, 2)

    def find_root(self, paths: Iterable[str], stated: str = "") -> str:
        return roots.find_root(paths, stated)

    def has_manifest(self, paths: Iterable[str]) -> bool:
        """Whether a file at the root says how this Python is installed."""
        return any("/" not in path and self.is_manifest(path) for path in paths)

    def identify(self, manifests: Manifests, described: str) -> Identity:
        manifests = below(manifests, roots.find_root(manifests.names, manifests.root))
        name = metadata.distribution_name(manifests.texts)
        return Identity(name, *metadata.find_version(name, manifests.texts, described))

    def attempts(self, manifests: Manifests, asked: Asked, _plain: Recipe, /) -> Sequence[Attempt]:
        root = roots.find_root(manifests.names, manifests.root)
        siblings = origins.find_siblings(manifests.texts, root)
        others = origins.find_others(manifests.names, root)
        maker = install.AttemptMaker(below(manifests, root), asked, root, siblings, others)
        return maker.list_attempts()

    def steps(self, manifests: Manifests, asked: Asked, /) -> tuple[Sequence[str], Sequence[str]]:
        inside = below(manifests, roots.find_root(manifests.names, manifests.root))
        python = interpreter.find_python_requirement(inside.texts, configured=asked.version)
        return (python.to_step(),) if python else (), (requirements.PYTEST,)

    async def variables(self, codebase: Codebase) -> Mapping[str, str]:
        workflows = (await codebase.find_paths(CI_FILE.fullmatch))[:20]
        root = roots.find_root(codebase.files, codebase.root)
        texts = await roots.read_below(codebase, root, commands.ROUTINES, largest=64 * 1024)
        texts |= await codebase.read_texts(workflows, largest=64 * 1024)
        found = await asyncio.to_thread(variables.find_variables, texts)
        if root:  # its tests import it as from its own folder
            found.setdefault("PYTHONPATH", f"{CHECKOUT}/{root}")
        return found

    async def packages(self, codebase: Codebase) -> tuple[str, ...]:
        root = roots.find_root(codebase.files, codebase.root)
        inside = cut_root(codebase.files, root)
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

    @property
    def script_suffix(self) -> str:
        return ".py"

    def is_source(self, path: str) -> bool:
        return path.endswith(".py")
