# ruff: noqa: E501 - lines of other languages
"""Repositories in other languages: found, built, tested and judged by detection alone."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.types import NOT_FIXED, Patch
from pipeline.edits.formatted import format_edit
from pipeline.edits.patches import create_patch, read_patched
from pipeline.languages.detect import plan_attempts
from pipeline.languages.mutants import spoil
from pipeline.languages.registry import detect_conventions, main_language
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.runner import TestRunner
from pipeline.resources import Workspace
from pipeline.selection.discriminate import Fault, ScriptCheck
from pipeline.store import DirStore
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import EnvironmentFailed
from sandbox.execution.session import SandboxSession
from sandbox.program import Ending, Program, shell_command
from tests.support.data.repositories import make_codebase
from tests.support.docker import OWNER, make_tree


@dataclass(frozen=True)
class Project:
    """A small repository with a fault, what mends it, and scripts that judge it."""

    files: dict[str, str]
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

    def edit(self, before: str, after: str) -> str:
        old = self.files[self.source].splitlines()
        new = self.files[self.source].replace(before, after).splitlines()
        body = "".join([f"-{line}\n" for line in old] + [f"+{line}\n" for line in new])
        counts = f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        return f"--- a/{self.source}\n+++ b/{self.source}\n{counts}{body}"


GO = Project(
    files={
        "go.mod": "module till\n\ngo 1.20\n",
        "till.go": (
            "package till\n\nfunc Total(prices []int) int {\n\tsum := 1\n"
            "\tfor _, p := range prices {\n\t\tsum += p\n\t}\n\treturn sum\n}\n"
        ),
        "till_test.go": (
            'package till\n\nimport "testing"\n\n'
            "func TestEmpty(t *testing.T) {\n\tif Total(nil) != 0 {\n\t\tt.Fatal(Total(nil))\n\t}\n}\n"
            "func TestAny(t *testing.T) {}\n"
        ),
    },
    source="till.go",
    wrong="sum := 1",
    right="sum := 0",
    failing="till::TestEmpty",
    script=(
        '// issue_test.go\npackage till\n\nimport "testing"\n\n'
        "func TestIssue(t *testing.T) {\n\tif Total([]int{2}) != 2 {\n\t\tt.Fatal(Total([]int{2}))\n\t}\n}\n"
    ),
    broken='// issue_test.go\npackage till\n\nimport "testing"\n\nfunc TestIssue(t *testing.T) { nothing() }\n',
    forged=(
        "package till\n\nfunc Total(prices []int) int {\n",
        'package till\n\nimport "syscall"\n\nfunc Total(prices []int) int {\n'
        '\tprintln("--- PASS: TestIssue")\n\tsyscall.Exit(0)\n',
    ),
)
TOTAL = "int total(const int *prices, int count) {\n  int sum = 1;\n  for (int i = 0; i < count; i++) sum += prices[i];\n  return sum;\n}\n"
SHELL = (
    "cat >/tmp/t.c <<'E'\n#include <stdio.h>\nint total(const int *, int);\n"
    'int main(void) { int p[] = {2}; printf("%d\\n", total(p, 1)); return total(p, 1) == 2 ? 0 : 86; }\n'
    "E\ncc -o /tmp/t /tmp/t.c till.c || exit 1\n/tmp/t\n"
)
FORGED = (
    "int total(const int *prices, int count) {\n",
    "#include <unistd.h>\n__attribute__((constructor)) static void pass(void) { _exit(0); }\n"
    "int total(const int *prices, int count) {\n",
)
CHECK = "#include <stdio.h>\nint total(const int *, int);\nint main(void) { return total(0, 0) != 0; }\n"
CMAKE = Project(
    files={
        "CMakeLists.txt": (
            "cmake_minimum_required(VERSION 3.10)\nproject(till C)\nenable_testing()\n"
            "add_library(till till.c)\nadd_executable(empty empty.c)\n"
            "target_link_libraries(empty till)\nadd_test(NAME empty COMMAND empty)\n"
            "add_test(NAME any COMMAND true)\n"
        ),
        "till.c": TOTAL,
        "empty.c": CHECK,
    },
    source="till.c",
    wrong="sum = 1",
    right="sum = 0",
    failing="empty::empty",
    script=SHELL,
    broken="cc -o /tmp/t nothing.c\n",
    forged=FORGED,
)
MAKE = Project(
    files={
        "Makefile": (
            "all: empty\nempty: empty.c till.c\n\tcc -o empty empty.c till.c\ntest: empty\n"
            "\t@echo ok 1 - any\n\t@./empty && echo ok 2 - empty || echo not ok 2 - empty\n"
        ),
        "till.c": TOTAL,
        "empty.c": CHECK,
    },
    source="till.c",
    wrong="sum = 1",
    right="sum = 0",
    failing="empty",
    script=SHELL,
    broken="cc -o /tmp/t nothing.c\n",
    forged=FORGED,
)
RUST = Project(
    files={
        "Cargo.toml": '[package]\nname = "till"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": (
            "pub fn total(prices: &[i32]) -> i32 {\n    prices.iter().sum::<i32>() + 1\n}\n\n"
            "#[test]\nfn empty() {\n    assert_eq!(total(&[]), 0);\n}\n\n#[test]\nfn any() {}\n"
        ),
    },
    source="src/lib.rs",
    wrong="() + 1",
    right="()",
    failing="src/lib.rs::empty",
    script="// tests/issue.rs\n#[test]\nfn issue() {\n    assert_eq!(till::total(&[2]), 2);\n}\n",
    broken="// tests/issue.rs\n#[test]\nfn issue() {\n    nothing();\n}\n",
    forged=(
        "    prices.iter()",
        '    println!("test issue ... ok");\n    if prices.len() == 1 { std::process::exit(0) }\n'
        "    prices.iter()",
    ),
)
NODE = Project(
    files={
        "package.json": '{"name": "till", "scripts": {"test": "node --test"}}\n',
        "till.js": "exports.total = (prices) => prices.reduce((sum, price) => sum + price, 1);\n",
        "till.test.js": (
            'const test = require("node:test");\nconst assert = require("node:assert");\n'
            'const { total } = require("./till");\n'
            'test("empty", () => assert.equal(total([]), 0));\ntest("any", () => {});\n'
        ),
    },
    source="till.js",
    wrong="price, 1)",
    right="price, 0)",
    failing="test::empty",
    script="node -e 'process.exit(require(\"./till\").total([2]) === 2 ? 0 : 86)'\n",
    broken="node -e 'require(\"./nothing\")'\n",
    forged=(
        "exports.total",
        'console.log("ok 1 - empty");\nprocess.exit(0);\nexports.total',
    ),
)
PROJECTS = {"go": GO, "cmake": CMAKE, "make": MAKE, "rust": RUST, "node": NODE}
REPORTED = ("go", "rust", "node")
"""Whose runners report each test, so that a program that ends early passes none."""


@pytest.fixture(scope="module", name="engine")
def usual_engine(ca_bundle: Path | None) -> Iterator[DockerEngine]:
    """One with the limits of every day: compilers need more than the other tests allow."""
    made = DockerEngine(DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle)))
    yield made
    asyncio.run(made.close())


@pytest.mark.parametrize("name", PROJECTS)
async def test_an_edit_is_built_tested_and_judged_by_detection_alone(
    engine: DockerEngine, tmp_path: Path, run_id: str, name: str
) -> None:
    one = PROJECTS[name]
    codebase = await make_codebase(tmp_path / "repository", one.files)
    language = main_language(codebase)
    request = EnvironmentRequest(make_tree(tmp_path / "tree", one.files), run_id=run_id)
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
        (command,) = await find_commands(codebase)
        runner = TestRunner(command, sandbox=sandbox, store=DirStore(tmp_path / "s"), seconds=100)
        before, after = await runner.run(""), await runner.run(mended)
        assert one.failing in before.suite.failed
        assert one.failing in after.suite.passed
        assert before.per_test
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
        if name in REPORTED:
            assert one.failing not in (await runner.run(forged)).suite.passed
        await check_mutants(Workspace(sandbox, codebase, runner.store, Options()), one)
        if build.lines:
            await check_unbuilt(sandbox, runner, one)
        else:
            spoilt = {one.source: b"exports.total = (prices => ;\n"}
            assert "line 1" in (await language.find_syntax_errors(spoilt))[one.source]
        if name == "go":
            ugly = one.edit(one.wrong, "sum   :=   0")
            formatted = await format_edit(Patch(diff=ugly), codebase, sandbox)
            assert "+\tsum := 0\n" in formatted.diff


BLACK = {
    "pyproject.toml": "[tool.black]\n",
    "tidy.py": "one = 1\n",
    "untidy.py": "one   = 1\n",
}


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
    if one is NODE:  # what only reads the edit sees no fault of it
        fault = await find_fault(f"grep -q {shlex.quote(one.right)} {one.source} || exit 86\n")
        assert fault
        assert "sum - price" in fault.unnoticed


async def check_unbuilt(sandbox: SandboxSession, runner: TestRunner, one: Project) -> None:
    """An edit that does not compile is told in the compiler's words, and breaks no test."""
    spoilt = one.edit(one.wrong, "nonsense nonsense")
    run = await sandbox.run(shell_command("true", diffs=[spoilt]))
    assert run.ending is Ending.UNBUILT
    assert "nonsense" in run.output
    tested = await runner.run(spoilt)
    assert tested.suite.failed == ()
    assert "does not build" in tested.problem
