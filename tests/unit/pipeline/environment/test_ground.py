"""What lies in a tree against what reported, in languages whose runners name little."""

import re
from itertools import product
from pathlib import Path

import pytest

from pipeline.environment.ground import survey
from pipeline.environment.health import Grade
from tests.support.data.repositories import make_codebase
from tests.support.planned_engine import check_health

GO = "package a\n\nfunc TestA(t *testing.T) {}\n"
JS = "test('a', () => {})\n"
JUNIT = "import org.junit.jupiter.api.Test;\nclass AppTest {\n    @Test void adds() {}\n}\n"
TWO_MODULES = {
    **{f"{name}/go.mod": f"module kiln.test/{name}\n" for name in ("api", "lib")},
    **{f"{name}/a_test.go": GO for name in ("api", "lib")},
}
TWO_PACKAGES = {
    "package.json": "{}",
    "packages/a/package.json": "{}",
    "src/x.js": "",
    "test/send.js": "describe('res', () => {\n  it('should send', f)\n})\n",
    "packages/a/a.test.js": "it('adds two', f)\n",
    "test/support/env.js": "x()\n",
}


@pytest.mark.parametrize(
    ("files", "results", "reported", "projects", "silent"),
    [
        (TWO_MODULES, ["kiln.test/api::TestA"], {"api/a_test.go"}, (1, 2), "`lib` (1)"),
        (TWO_MODULES, ["kiln.test/api::TestA", "kiln.test/lib::TestA"], {*TWO_MODULES} - {
            "api/go.mod", "lib/go.mod"}, (2, 2), ""),
        (  # of a root and a module below, the result without a folder is the root's
            {"go.mod": "module k\n", "a_test.go": GO, "sdk/go.mod": "", "sdk/a_test.go": GO},
            ["k::TestA"], {"a_test.go"}, (1, 2), "`sdk` (1)",
        ),
        (TWO_PACKAGES, ["res should send"], {"test/send.js"}, (1, 2), "`packages/a` (1)"),
        (TWO_PACKAGES, ["a.test.js::adds two"], {"packages/a/a.test.js"}, (1, 2), "`.` (1)"),
        (
            {"pom.xml": "", "a/pom.xml": "", "a/src/test/java/k/AppTest.java": JUNIT,
             "b/pom.xml": "", "b/src/test/java/k/BTest.java": JUNIT.replace("App", "B")},
            ["k.AppTest::adds()"], {"a/src/test/java/k/AppTest.java"}, (1, 2), "`b` (1)",
        ),
        (
            {"Cargo.toml": "", "src/lib.rs": "#[test]\nfn empty() {}\n", "m/Cargo.toml": "",
             "m/src/lib.rs": "#[test]\nfn full() {}\n", "m/src/x.rs": "fn x() {}\n"},
            ["src/lib.rs::tests::empty"], {"src/lib.rs"}, (1, 2), "`m` (1)",
        ),
        (
            {"CMakeLists.txt": "", "a.c": "", "tests/heat.c": "int main(void) {}\n",
             "tests/cold.c": "int main() {}\n", "tests/unity.c": "int x;\n"},
            ["heat::heat"], {"tests/heat.c"}, (1, 1), "`tests` (1)",
        ),
        (
            {"Rakefile": "", "test/till_test.rb": "def test_any\n", "test/a_test.rb": "test 'a'\n",
             "test/test_gate.rb": "class TestOldGate < Base\n  def test_any\n"},
            ["TillTest#test_any", "Kiln::TestOldGate#test_any"],
            {"test/till_test.rb", "test/test_gate.rb"}, (1, 1), "`test` (1)",
        ),
        (
            {"composer.json": "", "tests/TillTest.php": "class TillTest extends Base {\n"
             "    public function testAny(): void {}\n", "tests/Base.php":
             "abstract class Base extends PHPUnit\\Framework\\TestCase {\n}\n",
             "tests/GateTest.php": "class GateTest {\n    #[Test]\n    public function any() {}\n"},
            ["Kiln.TillTest::testAny"], {"tests/TillTest.php"}, (1, 1), "`tests` (1)",
        ),
        ({"go.mod": "", "a_test.go": GO}, ["a command"], set[str](), (0, 1), "`.` (1)"),
    ],
)  # fmt: skip
async def test_what_reported_is_told_by_the_names_of_tests_and_files(
    tmp_path: Path,
    files: dict[str, str],
    results: list[str],
    reported: set[str],
    projects: tuple[int, int],
    silent: str,
) -> None:
    ground = await survey(await make_codebase(tmp_path, files))
    found = ground.find_reported(results)
    assert found == reported
    assert ground.count_projects(found) == projects
    assert ground.name_silent(found) == silent


async def test_a_manifest_among_the_inputs_of_tests_makes_no_project(tmp_path: Path) -> None:
    files = dict.fromkeys(("go.mod", "lib/test-data/a/package.json", "fixture/pom.xml"), "")
    files |= {"testdata/Cargo.toml": "", "testdata/a_test.go": GO, "a_test.go": GO}
    files |= {"package.json": "", "snap-tests/a/package.json": "", "snap-tests/a/a.test.js": JS}
    ground = await survey(await make_codebase(tmp_path, {**files, "web/b.test.js": JS}))
    assert ground.projects == ("",)
    assert {*ground.tests} == {"a_test.go", "web/b.test.js"}


async def test_a_project_from_which_no_result_comes_is_named(tmp_path: Path) -> None:
    test = "def test_a():\n    pass\n"
    files = {f"services/{name}/pyproject.toml": "[project]\n" for name in ("api", "billing")}
    files |= {f"services/{name}/tests/test_{name}.py": test for name in ("api", "billing")}
    files |= {"web/package.json": "{}", "web/a.test.js": "test('a', f)\n", "services/api/b.py": ""}
    found = await check_health(tmp_path, files)
    assert (found.grade, found.projects[1]) == (Grade.HEALTHY, 3)
    assert "`web` (1)" in found.summary()


@pytest.mark.parametrize(
    ("files", "root", "named"),
    [
        (("go.mod", "sdk/go.mod"), "", ()),
        (("go.mod", "web/package.json", "docs/package.json"), "", ("web",)),
        (("api/pom.xml", "web/package.json"), "api", ("api", "web")),
        (("CMakeLists.txt", "requirements.txt"), "", ()),
        (("api/requirements.txt", "web/package.json"), "web", ("api", "web")),
    ],
)
async def test_projects_that_are_not_installed_are_named(
    tmp_path: Path, files: tuple[str, ...], root: str, named: tuple[str, ...]
) -> None:
    ground = await survey(await make_codebase(tmp_path, {**dict.fromkeys(files, ""), "a.go": ""}))
    said = ground.describe_choice(root)
    assert {*re.findall(r"`([\w.]+)`", said.partition("; the setting")[0])} == {*named}


NOTHING = (
    *("No tests were found!!!", "Error: no test specified", "1..0", "No tests found, exiting"),
    *("Tests  0", "There are no tests to run", "  0 passing (1ms)", "# TOTAL: 0"),
    *("No tests defined.", "ok | 0 passed", "2: 0 tests passed, 0 failed", "Ran 0 tests in 0.1s"),
    "No test matches the given testcase filter `x` in till.dll",
)


@pytest.mark.parametrize(
    ("printed", "ends"), [*product(NOTHING, (0, 1)), ('ERROR: "lint" exited with 1.', 1)]
)
async def test_a_runner_that_ran_nothing_has_no_result(
    tmp_path: Path, printed: str, ends: int
) -> None:
    files = {"Makefile": f"check:\n\t@echo '{printed}'; exit {ends}\n", "x.zig": ""}
    found = await check_health(tmp_path, files)
    assert (found.passed, found.failed, found.grade) == (0, 0, Grade.BROKEN)
    assert "make check" in found.problem


@pytest.mark.parametrize("printed", ["ok  \tx.test/a\t0.012s", "Ran 0 tests; 5 tests passed", "OK"])
async def test_a_command_that_names_no_test_is_not_the_last_that_is_tried(
    tmp_path: Path, printed: str
) -> None:
    makefile = f"check:\n\t@printf '{printed}\\n'\n\ntest:\n\t@echo 'ok 1 - a'; echo 'ok b'\n"
    steps = "on: push\njobs:\n  a:\n    steps:\n      - run: make test\n"
    files = {"Makefile": makefile, "x.zig": "", ".github/workflows/ci.yml": steps}
    found = await check_health(tmp_path, files)
    assert (found.command, found.passed) == (("make", "test"), 2)


async def test_each_of_many_report_files_is_read(tmp_path: Path) -> None:
    """Maven and Gradle write one for each class of tests."""
    write = "echo \"<testsuite><testcase name='t$$n'/></testsuite>\" >r$$n.xml"
    check = f"check:\n\t@for n in $$(seq 300); do {write}; done\n"
    found = await check_health(tmp_path, {"Makefile": check, "x.zig": ""})
    assert (found.passed, found.failed) == (300, 0)


async def test_what_stopped_a_runner_before_its_first_test_is_said(tmp_path: Path) -> None:
    """RSpec's files did not load, and it counted no example."""
    said = "Failure/Error: require x\\n\\nErrno::ENOENT:\\n  no file till\\n\\n0 examples"
    check = f'check:\n\t@printf "{said}\\n"; exit 1\n'
    found = await check_health(tmp_path, {"Makefile": check, "x.zig": ""})
    assert "Errno::ENOENT, no file till" in found.summary()
