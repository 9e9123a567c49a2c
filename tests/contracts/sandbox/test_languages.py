"""Repositories in other languages: found, built, tested and judged by detection alone."""

import shlex
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.types import NOT_FIXED, Patch
from pipeline.edits.formatted import format_edit
from pipeline.edits.patches import create_patch, read_patched
from pipeline.languages.detect import plan_attempts
from pipeline.languages.formatters import BIN
from pipeline.languages.mutants import spoil
from pipeline.languages.registry import detect_conventions, main_language
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.compare import ControlTests
from pipeline.regression.runner import TestRunner
from pipeline.resources import Workspace
from pipeline.selection.discriminate import Fault, ScriptCheck
from pipeline.store import DirStore
from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.execution.session import SandboxSession
from sandbox.program import Ending, Program, shell_command
from tests.support.data.language_projects import PROJECTS, Project
from tests.support.data.repositories import make_codebase
from tests.support.docker import make_tree, usual_engine

__all__ = ["usual_engine"]


@pytest.mark.parametrize("name", PROJECTS)
async def test_an_edit_is_built_tested_and_judged_by_detection_alone(
    engine: DockerEngine, tmp_path: Path, run_id: str, name: str
) -> None:
    one = PROJECTS[name]
    codebase = await make_codebase(tmp_path / "repository", one.files)
    language = main_language(codebase)
    tree = make_tree(tmp_path / "tree", one.files)
    request = EnvironmentRequest(tree, setup=one.setup, run_id=run_id)
    (attempt, *_) = await plan_attempts(request)
    try:
        image = await engine.prepare(request, attempt)
    except EnvironmentFailed as failed:
        if "not found" in failed.log or "No matching distribution" in failed.log:
            pytest.skip(f"no toolchain of {language.facts.name} can be had here")
        raise
    build = await language.edit_build(codebase)
    mended = one.edit(one.wrong, one.right)
    async with engine.open(image, run_id=run_id, build=build) as sandbox:
        command, *_ = await find_commands(codebase)
        runner = TestRunner(command, sandbox=sandbox, store=DirStore(tmp_path / "s"), seconds=100)
        before, after = await runner.run(""), await runner.run(mended)
        assert one.failing in before.suite.failed
        assert one.failing in after.suite.passed
        assert before.per_test
        assert one.failing.rpartition("::")[2] in before.suite.execution.output
        assert set(before.suite.passed) <= set(after.suite.passed)

        if files := command.covers(sorted(filter(language.is_runnable, one.files))):
            some = await runner.run(mended, RequestedTests(files=files))
            assert set(some.suite.passed) == set(after.suite.passed)
        await check_probe(sandbox, codebase)

        async def judge(script: str, *diffs: str) -> int | None:
            run = await sandbox.run(language.script_program(script, diffs=diffs))
            return run.exit_code

        assert await judge(one.script) == 2
        assert await judge(one.script, mended) == 0
        assert await judge(one.broken, mended) == 1
        control = language.write_control_script(one.script, mended, "abc")
        assert await judge(control, mended) == 2
        assert await judge(control) == 2
        # An edit that ends the script as if it passed is told by the control.
        forged = one.edit(*one.forged)
        assert (await judge(one.script, forged), await judge(control, forged)) == (0, 0)
        told = (await runner.run(forged)).suite.passed
        controls = ControlTests(runner, codebase, before)
        assert one.failing not in told or await controls.are_forged(forged, told)
        assert not await controls.are_forged(mended, after.suite.passed)
        await check_mutants(Workspace(sandbox, codebase, runner.store, Options()), one)
        if build.lines:
            await check_unbuilt(sandbox, runner, one)
        else:
            spoilt = {one.source: one.spoilt.encode()}
            assert "line " in (await language.find_syntax_errors(spoilt))[one.source]
        if name == "gradle":  # by its own wrapper, which has its distribution at home
            kept = shell_command("ls ~/.gradle/wrapper/dists")
            assert "gradle-4.4.1-bin" in (await sandbox.run(kept)).output
        if name == "go":
            ugly = one.edit(one.wrong, "sum   :=   0")
            formatted = await format_edit(Patch(diff=ugly), codebase, sandbox)
            assert "+\tsum := 0\n" in formatted.diff


BLACK = {"pyproject.toml": "[tool.black]\n", "tidy.py": "one = 1\n", "untidy.py": "one   = 1\n"}


async def test_an_edit_takes_the_form_that_the_repository_gives_its_tidy_files(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    codebase = await make_codebase(tmp_path / "repository", BLACK)
    tree = make_tree(tmp_path / "tree", BLACK)
    request = EnvironmentRequest(tree, setup=["pip install black"], run_id=run_id)
    (attempt, *_) = await plan_attempts(request)
    image = await engine.prepare(request, attempt)
    changes: dict[str, bytes | None] = {
        path: b"one   =  2\n" for path in BLACK if path != "pyproject.toml"
    }
    edit = await create_patch(codebase, {**changes, "new.py": b"two=  2\n"})
    async with engine.open(image, run_id=run_id) as sandbox:
        formatted = await format_edit(edit, codebase, sandbox)
        broken = await create_patch(codebase, {"tidy.py": b"one = (\n"})
        assert await format_edit(broken, codebase, sandbox) == broken
    left = await read_patched(codebase, formatted.diff)
    assert {path: file.content for path, file in left.items() if file} == {
        "tidy.py": b"one = 2\n",
        "untidy.py": b"one   =  2\n",
        "new.py": b"two = 2\n",
    }


LOCAL = """repos:
- repo: local
  hooks:
  - {id: fmt, language: system, entry: "sed -i 's/  */ /g'", files: '^one'}
  - {id: fix, language: system, entry: "sed -i s/2/3/", files: '^two'}
"""
HOOK = "repos:\n- repo: https://github.com/x/y\n  rev: {0}\n  hooks:\n  - id: {1}\n"
BROUGHT = {
    "black": ({".pre-commit-config.yaml": HOOK.format("22.12.0", "black")}, "one.py", "22.12.0"),
    "clang-format": ({".clang-format": "BasedOnStyle: LLVM\n"}, "one.c", "clang-format"),
    "sed": ({".pre-commit-config.yaml": LOCAL}, "one.c", "sed"),
    "clang-format by pre-commit": (
        {".pre-commit-config.yaml": HOOK.format("v14.0.6", "clang-format")}, "one.c", "14.0.6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROUGHT)
async def test_a_formatter_comes_with_the_environment_in_the_version_that_pre_commit_pins(
    engine: DockerEngine, tmp_path: Path, run_id: str, name: str
) -> None:
    own, path, version = BROUGHT[name]
    files = {**own, path: "int one = 1;\n" if path.endswith(".c") else "one = 1\n"}
    codebase = await make_codebase(tmp_path / "repository", files)
    tree = make_tree(tmp_path / "tree", files)
    request = EnvironmentRequest(tree, setup=["true"], run_id=run_id)
    (attempt, *_) = await plan_attempts(request)
    image = await engine.prepare(request, attempt)
    edit = await create_patch(codebase, {path: files[path].replace("= 1", "  =   2").encode()})
    async with engine.open(image, run_id=run_id) as sandbox:
        formatted = await format_edit(edit, codebase, sandbox)
        program = f"PATH={BIN}:$PATH {name.split()[0]} --version"
        told = await sandbox.run(shell_command(program))
    left = (await read_patched(codebase, formatted.diff))[path]
    assert left
    assert left.content == files[path].replace("1", "2").encode()
    assert version in told.output


async def check_probe(sandbox: SandboxSession, codebase: Codebase) -> None:
    """A new file of tests runs beside those that are there."""
    language, conventions = main_language(codebase), await detect_conventions(codebase)
    for runner in language.file_runners((), conventions):
        path = conventions.fresh_path("probe", codebase.files)
        example = conventions.example
        beside = await codebase.read_text(example) if example else ""
        patch = await create_patch(codebase, {path: runner.write_probe(beside or "").encode()})
        command = runner.command(path)
        assert command is not None
        run = await sandbox.run(Program(command, diffs=[patch.diff]))
        assert runner.has_passing_test(run.output), run.output


async def check_mutants(workspace: Workspace, one: Project) -> None:
    """A line of the edit that is spoilt still compiles, and a script counts only if it notices."""
    diffs = mended, _ = one.edit(one.wrong, one.right), one.edit("", "")
    check = ScriptCheck(workspace)

    async def find_fault(script: str) -> Fault | None:
        base, *runs = [await workspace.run_script(script, diff) for diff in ("", *diffs)]
        return await check.find_fault(script, diffs, base, runs)

    ends = [
        (await workspace.run_script(one.script, diff)).exit_code for diff in await spoil(mended)
    ]
    assert NOT_FIXED in ends
    assert await find_fault(one.script) is None
    if one is PROJECTS["node"]:  # what only reads the edit sees no fault of it
        fault = await find_fault(f"grep -q {shlex.quote(one.right)} {one.source} || exit 2\n")
        assert fault
        assert "sum - price" in fault.unnoticed


async def check_unbuilt(sandbox: SandboxSession, runner: TestRunner, one: Project) -> None:
    """An edit that does not compile is told in the compiler's words, and breaks no test."""
    spoilt = one.edit(one.wrong, "nonsense nonsense")
    run = await sandbox.run(shell_command("true", diffs=[spoilt]))
    assert run.ending is Ending.UNBUILT
    # What needs no build is not kept from running by one.
    assert (await sandbox.run(Program(("true",), diffs=[spoilt], built=False))).passed
    assert one.source in run.output
    tested = await runner.run(spoilt)
    assert tested.suite.failed == ()
    assert "does not build" in tested.problem
