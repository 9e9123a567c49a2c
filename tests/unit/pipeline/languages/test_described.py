"""Languages that are data: which one a tree has, how its reports and scripts are read."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from pipeline.environment.check import explain_left_out
from pipeline.languages.language import Language
from pipeline.languages.node.scripts import Packages
from pipeline.languages.registry import (
    LANGUAGES,
    aim,
    detect_conventions,
    languages_below,
    main_language,
    name_language,
)
from pipeline.languages.reports import READERS
from pipeline.languages.verdict import find_verdict
from pipeline.regression.command import find_commands
from pipeline.selection.scoring.confidence import limit_unfitted
from pipeline.workflows.verify import Verification
from sandbox.execution.jobs import Job
from sandbox.layout import CHECKOUT
from sandbox.program import SCRIPT_PATH, EditBuild, Execution
from tests.support.data.diffs import added_file
from tests.support.data.repositories import make_codebase
from tests.support.texts import texts_of

ROWS = texts_of(__file__)

GO_REPORT: str = ROWS["GO_REPORT"]
CARGO_REPORT: str = ROWS["CARGO_REPORT"]
MEMBERS_REPORT: str = ROWS["MEMBERS_REPORT"]
TAP_REPORT: str = ROWS["TAP_REPORT"]
AUTOMAKE_REPORT = "PASS: tests/jqtest\nFAIL: tests/shtest\nSKIP: tests/mantest\n# TOTAL: 3\n"
MINITEST_REPORT = "TillTest#test_empty = 0.00 s = F\nTillTest#test_any = 0.01 s = .\n"
TEST_UNIT_REPORT: str = ROWS["TEST_UNIT_REPORT"]
RSPEC_REPORT = json.dumps(
    {
        "examples": [
            {"file_path": "./spec/a_spec.rb", "full_description": "a b", "status": "passed"},
            {"file_path": "./spec/a_spec.rb", "full_description": "a c", "status": "failed"},
        ]
    }
)
TRX_REPORT: str = ROWS["TRX_REPORT"]
"""As MSTest and xUnit have it: the second names tests with their class."""
JEST_REPORT = json.dumps(
    {
        "testResults": [
            {
                "name": "/testbed/web/till.test.js",
                "status": "failed",
                "assertionResults": [
                    {"fullName": "till adds", "status": "failed"},
                    {"fullName": "till counts", "status": "passed"},
                    {"fullName": "till later", "status": "pending"},
                ],
            },
            {"name": "/testbed/broken.test.js", "status": "failed", "assertionResults": []},
        ]
    }
)


@pytest.mark.parametrize(
    ("reader", "output", "document", "passed", "failed"),
    [
        ("go", GO_REPORT, "", {"till::TestAny"}, {"till::TestEmpty", "till/broken"}),
        ("libtest", CARGO_REPORT, "", {"src/lib.rs::any", "till::src/lib.rs - total"},
         {"src/lib.rs::empty"}),
        ("libtest", ROWS["VERBOSE_REPORT"], "", {"till::a::any"}, {"till::src/lib.rs - total"}),
        ("libtest", MEMBERS_REPORT, "", {"src/lib.rs::any"}, {"beta/src/lib.rs::any"}),
        ("lines", TAP_REPORT, "", {"count", "nested"}, {"total"}),
        ("lines", AUTOMAKE_REPORT, "", {"tests/jqtest"}, {"tests/shtest"}),
        ("minitest", MINITEST_REPORT, "", {"TillTest#test_any"}, {"TillTest#test_empty"}),
        ("minitest", TEST_UNIT_REPORT, "", {"TillTest#test_any", "TillTest#test_with_a_long_name",
         "GateTest#test: adds two"}, {"TillTest#test_empty", "GateTest#test_any"}),
        ("rspec", "", RSPEC_REPORT, {"./spec/a_spec.rb::a b"}, {"./spec/a_spec.rb::a c"}),
        ("trx", "", TRX_REPORT,
         {"Till.Tests.TillTests.Any", "Till.Tests.SumTests.Adds(first: 1, second: 2)"},
         {"Till.Tests.TillTests.Empty"}),
        ("jest", "", JEST_REPORT, {"web/till.test.js::till counts"},
         {"web/till.test.js::till adds", "broken.test.js"}),
    ],
)  # fmt: skip
def test_a_report_is_read_by_name(
    reader: str, output: str, document: str, passed: set[str], failed: set[str]
) -> None:
    found = READERS[reader](output, [document.encode(), b'{"examples": [1, {}]'])
    assert (found.passed, found.failed) == (passed, failed)


@pytest.mark.parametrize(("reader", "printed"), ROWS["a_test_keeps_its_name"])
def test_a_test_keeps_its_name_where_an_edit_moves_its_line(reader: str, printed: str) -> None:
    said = [printed.format(*lines) for lines in ((12, 34), (56, 78))]
    before, after = (READERS[reader](one, [one.encode()]) for one in said)
    assert (before.passed, before.failed) == (after.passed, after.failed)
    assert len(before.passed | before.failed) == (1 if reader == "rspec" else 2)


@pytest.mark.parametrize(
    ("paths", "name"), ROWS["the_main_language_is_that_of_a_manifest_of_python_else_of_most_files"]
)
def test_the_main_language_is_that_of_a_manifest_of_python_else_of_most_files(
    paths: list[str], name: str
) -> None:
    assert languages_below(paths, "")[0].facts.name == name
    below = [f"engine/{path}" for path in paths]
    assert languages_below(["README.md", "docs/conf.py", *below], "engine")[0].facts.name == name


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["README.md", "engine/go.mod", "engine/a.go", "engine/b.go", "tools/x.py"], "Go"),
        (["Makefile", "web/package.json", "web/src/a.ts", "web/src/b.ts"], "JavaScript"),
        (["docs/package.json", "docs/a.js", "docs/b.js", "lib/a.py"], "Python"),
        (["pyproject.toml", "a.py", "web/package.json", "web/a.js", "web/b.js"], "Python"),
    ],
)
def test_a_project_below_the_root_is_found(paths: list[str], name: str) -> None:
    assert [one.facts.name for one in languages_below(paths, "")] == [name]


WORKSPACE = {
    "Cargo.toml": "[workspace]\nmembers = ['a', 'b']\n",
    "a/Cargo.toml": "",
    "b/Cargo.toml": "",
    "b/src/lib.rs": "",
    "b/src/x.rs": "",
    "a/src/lib.rs": "",
}


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        (WORKSPACE, "b/tests"),
        ({**WORKSPACE, "a/tests/one.rs": "#[test]\nfn a() {}\n"}, "a/tests"),
        ({"Cargo.toml": "", "src/lib.rs": "", "sub/Cargo.toml": ""}, "tests"),
        ({"settings.gradle": "", "app/build.gradle": "", "app/src/A.java": ""}, ""),
        ({"go.work": "", "api/go.mod": "", "api/a.go": "", "lib/go.mod": ""}, "api"),
    ],
)
async def test_a_new_test_lies_where_something_compiles_it(
    tmp_path: Path, files: dict[str, str], folder: str
) -> None:
    found = await detect_conventions(await make_codebase(tmp_path, files))
    assert found.folder == folder


def of(name: str) -> Language:
    return next(one for one in LANGUAGES if one.facts.name == name)


SERVICES = {
    "services/api/pyproject.toml": "",
    "services/billing/setup.py": "",
    "README.md": "",
    "web/package.json": "{}",
    "services/billing/src/tolls/__init__.py": "",
}


@pytest.mark.parametrize(
    ("issue", "stated", "root"),
    [
        ("In services/billing, f(0) is 1", "", "services/billing"),
        ("`tolls.total()` is wrong", "", "services/billing"),
        ("The page in web/src/a.ts is empty", "", "web"),
        ("The api is slow", "", "services/api"),
        ("It is slow", "", ""),
        ("In services/billing, f(0) is 1", "web", "web"),
    ],
)
async def test_of_several_projects_the_one_counts_that_the_issue_speaks_of(
    tmp_path: Path, issue: str, stated: str, root: str
) -> None:
    codebase = await make_codebase(tmp_path, SERVICES)
    assert aim(codebase, issue, root=stated).root == root


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        (
            ["server/Cargo.toml", "server/core/Cargo.toml", "client/Cargo.toml"],
            ["client", "server"],
        ),
        (["api/go.mod", "lib/go.mod", "web/package.json"], ["api", "lib"]),
        (["a/pom.xml", "b/build.gradle"], ["a"]),
        (["pom.xml", "a/build.gradle", "b/build.gradle"], []),
        (["list/configure.ac", "pots/configure.ac"], ["list", "pots"]),
        ([f"{one}/composer.json" for one in "abcde"], ["a"]),
        (["web/package.json", "api/package.json", "api/core/package.json"], ["api", "web"]),
        (["package.json", "web/package.json", "web/yarn.lock", "web/a.test.js"], [".", "web"]),
        (["package.json", "site/package.json", "site/yarn.lock"], []),
        (["package.json", *(f"{one}/{file}" for one in "abcde" for file in (
            "package.json", "yarn.lock", "x.test.js"))], []),
    ],
)  # fmt: skip
async def test_the_few_projects_beside_each_other_are_all_tested(
    tmp_path: Path, files: list[str], folders: list[str]
) -> None:
    text = '{"scripts": {"test": "jest"}}'
    codebase = await make_codebase(tmp_path, dict.fromkeys([*files, "a.go"], text))
    command, *_ = await find_commands(codebase)
    assert re.findall(r"(?:\[in |^cd )([\w.]+)", command.argv[-1]) == folders
    if len(folders) > 1:
        assert aim(codebase, f"{folders[0]}/ breaks").root == ""
        assert (aim(codebase, "web/ breaks").root == "web") is ("api/go.mod" in files)


@pytest.mark.parametrize(("fails", "left_out", "code"), [("lib", "", 0), ("api", "/none", 1)])
async def test_one_of_several_that_cannot_be_installed_is_left_out_but_an_edit_must_build(
    tmp_path: Path, fails: str, left_out: str, code: int
) -> None:
    files = {"api/go.mod": "\n", "lib/go.mod": "\n"}
    build = await of("Go").edit_build(await make_codebase(tmp_path / "g", files))
    for folder in ("api", "lib"):
        (tmp_path / folder).mkdir()
    go = f"go() {{ case $PWD in *{fails}) echo 'go: error: no such module'; return 1;; esac; }}; "
    lines = [go + one.replace("/opt/env", f"{tmp_path}{left_out}") for one in build.lines]
    edit = Job((), CHECKOUT, {}, diffs=("+",), build=EditBuild(lines=tuple(lines)))
    end = subprocess.run(edit.build_argv, cwd=tmp_path, check=False).returncode
    assert (end > 0) is bool(code)
    told = subprocess.getoutput(f"tail {tmp_path}/left-out-* /dev/null")
    told = told.replace(f"{tmp_path}", "/opt/env")
    why = f"`{fails}` could not be installed, and is left out: go: error: no such module."
    assert list(explain_left_out(told)) == ([] if left_out else [why])
    told = told.replace("go: error: no such module", "no such flag\nUsage: go [-v]\n  -v  tells")
    why = why.replace("go: error: no such module", "no such flag")
    assert list(explain_left_out(told)) == ([] if left_out else [why])


def test_a_module_that_maven_cannot_build_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    way = of("Java").facts.ways[0]
    script = "\n".join((ROWS["MAVEN"], *way.tools, *way.steps, *way.build))
    script = re.sub("/opt/env|/tmp(?=/mvn)|(?=/usr/bin)", str(tmp_path), script)
    told = subprocess.getoutput(f"cd {tmp_path}; {script}")
    first, last = (one for one in told.splitlines() if "-B" in one)
    assert ("-pl" in first, "-pl !:slow " in last) == (False, True)
    told = subprocess.getoutput(f"tail {tmp_path}/left-out-* /dev/null")
    [why] = explain_left_out(told.replace(f"{tmp_path}/", "/opt/env/"))
    said = "Failed to execute goal on project slow: Could not resolve till:1"
    assert why == f"`slow` could not be installed, and is left out: [ERROR] {said}."


async def test_the_maintainers_say_which_language_is_tested(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path, {"setup.py": "", "go.mod": "", "a/__init__.py": ""})
    for language, name in (("", "Python"), ("go", "Go")):
        assert main_language(aim(codebase, "", language=language)).facts.name == name


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        (["a.ts", "b.tsx", "vite.config.js"], "TypeScript"),
        (["a.ts", "b.js", "c.mjs"], "JavaScript"),
        ([], "JavaScript"),
    ],
)
async def test_the_main_language_has_the_name_of_most_of_its_sources(
    tmp_path: Path, sources: list[str], name: str
) -> None:
    codebase = await make_codebase(tmp_path, dict.fromkeys(["package.json", *sources], "{}\n"))
    assert name_language(codebase) == name


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.facts.name)
def test_a_script_has_a_program_rules_and_a_control_that_fails(language: Language) -> None:
    program = language.script_program("text")
    is_python = language is of("Python")
    assert (SCRIPT_PATH in program.files) is is_python
    assert len(language.facts.rules.strip().splitlines()) <= 15
    assert bool(language.facts.rules) is not is_python
    test = "func TestA(t *testing.T) {\n}\nfn a() {\n}\n[ 1 = 1 ] && exit 0\n"
    control = language.write_control_script(test, "", "abc")
    assert "abc" in control or ("exit 86" in control and "1 ] && exit 0" not in control)


RUST_SCRIPT: str = ROWS["RUST_SCRIPT"]
GO_SCRIPT: str = ROWS["GO_SCRIPT"]


def test_a_rust_script_is_a_crate_of_its_own_and_keeps_its_names() -> None:
    program = of("Rust").script_program(RUST_SCRIPT)
    assert list(program.files.values()) == [RUST_SCRIPT]


def test_of_a_go_script_only_its_tests_get_other_names() -> None:
    program = of("Go").script_program(GO_SCRIPT)
    renamed = GO_SCRIPT.replace("func TestA(", "func TestAScript(").replace(
        "\tTestB(t)", "\tTestBScript(t)"
    )
    head, _, last = renamed.rpartition("func TestB(")
    assert list(program.files.values()) == [f"{head}func TestBScript({last}"]
    assert "^(TestAScript|TestBScript)$" in program.argv[-1]


@pytest.mark.parametrize(
    ("language", "path", "script", "names"),
    [
        ("Rust", "tests/a.rs", RUST_SCRIPT, ("get_int", "reads")),
        ("Go", "a_test.go", GO_SCRIPT, ("TestA", "TestB")),
    ],
)
def test_the_tests_that_an_edit_adds_are_known_by_name(
    language: str, path: str, script: str, names: tuple[str, ...]
) -> None:
    added = added_file(path, script)
    assert of(language).find_added_tests(added, path, script) == names


def test_a_script_says_where_it_lies_and_cannot_lie_elsewhere() -> None:
    go = of("Go")
    assert go.place_script("// a/b_test.go\npackage a\n", "x_test.go") == "a/b_test.go"
    for wrong in ("// ../b_test.go\n", "// /etc/b_test.go\n", "// a/b.go\n", "package a\n"):
        assert go.place_script(wrong, "x_test.go") == "x_test.go"


@pytest.mark.parametrize(
    ("code", "output", "verdict"),
    [
        (0, "--- PASS: TestA (0.00s)\nok\n", 0),
        (0, "ok  till 0.1s [no tests to run]\n", 1),
        (1, "--- FAIL: TestA (0.00s)\n    a_test.go:3: 1\n", 2),
        (1, "# till\n./a_test.go:3:2: undefined: x\nFAIL till [build failed]\n", 1),
        (2, "--- FAIL: TestA (0.00s)\npanic: boom\n", 1),
    ],
)
def test_a_go_test_passes_fails_by_its_own_check_or_is_broken(
    code: int, output: str, verdict: int
) -> None:
    tests = of("Go").facts.tests
    judge = {"passed": tests.passed, "failed": tests.failed, "broken": tests.broken}
    assert find_verdict(judge, code, output) == verdict


@pytest.mark.parametrize(
    ("path", "code", "output", "verdict"), ROWS["every_runners_own_exit_codes_are_failures"]
)
def test_every_runners_own_exit_codes_are_failures(
    path: str, code: int, output: str, verdict: str
) -> None:
    before = Execution(exit_code=code, output=output, seconds=1)
    after = Execution(exit_code=0, output="", seconds=1)
    found = Verification(path=path, command=("run",), before=(before,), after=(after,))
    assert found.verdict == verdict


PRINTS = "1 + 2 is 4\n"
OF_SH = "/tmp/capuchin/reproduce_issue.sh: 3: Syntax error: end of file unexpected"


@pytest.mark.parametrize(
    ("code", "output", "verdict"),
    [
        (0, PRINTS, 0),
        (2, PRINTS, 2),
        (86, PRINTS, 2),
        (1, PRINTS, 1),
        (127, PRINTS, 1),
        (137, PRINTS, 1),
        (139, "Segmentation fault\n", 2),
        (2, f"{OF_SH}\n", 1),
        (2, f"{OF_SH}\nNOT FIXED\n", 2),
        (2, "cc: error\nmake: *** [Makefile:2: all] Error 1\n", 1),
        (2, "grep: none: No such file or directory\n", 1),
    ],
)
def test_a_shell_script_says_its_verdict_in_the_one_protocol_and_a_mistake_is_none(
    code: int, output: str, verdict: int
) -> None:
    program = of("JavaScript").script_program("exit 2\n")
    assert find_verdict(json.loads(program.argv[-1]), code, output) == verdict


@pytest.mark.parametrize(
    ("name", "script", "alone"),
    [
        ("C and C++", "cc -I. -o /tmp/t /tmp/t.c src/till.c -lm\n/tmp/t\n", True),
        ("C and C++", "cc -o /tmp/t /tmp/t.c build/libtill.a\n/tmp/t\n", False),
        ("C and C++", "cc -o /tmp/t /tmp/t.c -L. -ltill\n", False),
        ("C and C++", "echo 1 | ./till\n", False),
        ("C and C++", "make -C src && src/till\n", False),
        ("Java", "java -cp target/classes Till\n", False),
        ("Java", "javac -d /tmp/t src/Till.java && java -cp /tmp/t Till\n", True),
        ("Go", GO_SCRIPT, True),
    ],
)
def test_a_script_that_compiles_what_it_needs_is_known(
    name: str, script: str, *, alone: bool
) -> None:
    assert of(name).compiles(script) is alone


@pytest.mark.parametrize("script", ROWS["a_control_of_an_honest_shell_script_never_passes"])
def test_a_control_of_an_honest_shell_script_never_passes(tmp_path: Path, script: str) -> None:
    control = of("JavaScript").write_control_script(script, "", "abc")
    ends: list[int] = []
    for name, text in (("script", script), ("control", control)):
        (tmp_path / name).write_text(text)
        ends.append(subprocess.run(["sh", tmp_path / name], check=False).returncode)
    assert ends[0] == 0
    assert ends[1] != 0


@pytest.mark.parametrize(
    "script",
    [
        "node -e 'process.exit(f() ? 0 : 2)'\n",
        "cat >t.c <<'E'\nint main(void) { return f() ? 0 : 2; }\nE\ncc t.c || exit 1\n./a.out\n",
        "node -e 'process.exit(f() ? 0 : 2)'\nr=$?\nexit $r\n",
    ],
)
def test_a_control_shows_that_a_program_ends_as_it_was_not_told_to(script: str) -> None:
    control = of("JavaScript").write_control_script(script, "", "abc")
    assert "\n\nexit 86" not in control
    assert "86" in control.partition("\n)\n")[0]


def test_a_runner_that_writes_a_report_prints_what_fails_too() -> None:
    node, rspec = (of(name).facts.ways[0] for name in ("JavaScript", "Ruby"))
    texts = {"package.json": '{"scripts": {"test": "vitest"}}'}
    (vitest,) = Packages(("package.json",), texts).list_parts([("", "npm test")])
    assert {"--run", "--reporter=default", "--reporter=junit"} <= {*vitest.words}
    assert of("JavaScript").drop_options(vitest.words) == ["npm", "test", "--", "--run"]
    mocha = ["npm", "test", "--", "--reporter", "tap"]
    assert of("JavaScript").drop_options(mocha) == ["npm", "test"]
    assert of("PHP").drop_options(of("PHP").facts.ways[0].test) == ["phpunit"]
    several = "code=0; (cd a && npm test -- --reporter tap) || code=$?; exit $code"
    assert of("JavaScript").drop_options(["sh", "-c", several])[2] == several.replace(
        " -- --reporter tap", ""
    )
    assert READERS["lines"]("not ok 1 total adds\n  1 == 2\n", ()).failed
    assert "destination=stdout" in node.variables["NODE_OPTIONS"]
    assert rspec.variables["SPEC_OPTS"].startswith("--format documentation ")


def test_where_nothing_was_fitted_the_probability_is_limited() -> None:
    assert limit_unfitted(0.98, tests=2) <= 0.75
    assert limit_unfitted(0.98, tests=1) <= 0.6
    assert limit_unfitted(0.98, tests=0) <= 0.5
    assert limit_unfitted(0.2, tests=2) > 0.2


async def test_what_a_shell_starts_is_given_no_files(tmp_path: Path) -> None:
    """They would be words of the shell, and all tests would run as if they were those of a file."""
    scripts = {"test": "npm run build && jest", "build": "tsc"}
    files = {"package.json": json.dumps({"scripts": scripts})}
    command, *_ = await find_commands(await make_codebase(tmp_path / "g", files))
    assert command.argv[0] == "sh"
    assert not command.covers(["a.test.js"])
