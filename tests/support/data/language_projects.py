# ruff: noqa: E501 - lines of other languages
"""Small repositories in other languages than Python, each with a fault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Project:
    """A small repository with a fault, what mends it, and scripts that judge it."""

    name: str
    """Of its folder in `projects`."""
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
    spoilt: str = "exports.total = (prices => ;\n"
    """The source with a mistake in its first line, in a language that is not compiled."""
    setup: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        folder = Path(__file__).parent / "projects" / self.name
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}

    def edit(self, before: str, after: str) -> str:
        old = self.files[self.source].splitlines()
        new = self.files[self.source].replace(before, after).splitlines()
        body = "".join([f"-{line}\n" for line in old] + [f"+{line}\n" for line in new])
        counts = f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        return f"--- a/{self.source}\n+++ b/{self.source}\n{counts}{body}"


GO = Project(
    name="go",
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
SHELL = (
    "cat >/tmp/t.c <<'E'\n#include <stdio.h>\nint total(const int *, int);\n"
    'int main(void) { int p[] = {2}; printf("%d\\n", total(p, 1)); return total(p, 1) == 2 ? 0 : 2; }\n'
    "E\ncc -o /tmp/t /tmp/t.c till.c || exit 1\n/tmp/t\n"
)
FORGED = (
    "int total(const int *prices, int count) {\n",
    "#include <unistd.h>\n__attribute__((constructor)) static void pass(void) { _exit(0); }\n"
    "int total(const int *prices, int count) {\n",
)
CMAKE = Project(
    name="cmake",
    source="till.c",
    wrong="sum = 1",
    right="sum = 0",
    failing="empty::empty",
    script=SHELL,
    broken="cc -o /tmp/t nothing.c\n",
    forged=FORGED,
)
PRESETS = replace(CMAKE, name="presets")
MAKE = Project(
    name="make",
    source="till.c",
    wrong="sum = 1",
    right="sum = 0",
    failing="empty",
    script=SHELL,
    broken="cc -o /tmp/t nothing.c\n",
    forged=FORGED,
)
RUST = Project(
    name="rust",
    source="till/src/lib.rs",
    wrong="1 + ",
    right="0 + ",
    failing="src/lib.rs::empty",
    script=(
        "// till/tests/issue.rs\n#![deny(nonstandard_style)]\n"
        "#[test]\nfn total() {\n    assert_eq!(till::total(&[2]), 2);\n}\n"
    ),
    broken="// till/tests/issue.rs\n#[test]\nfn issue() {\n    nothing();\n}\n",
    forged=(
        "    1 + prices",
        '    println!("test total ... ok");\n    if prices.len() == 1 { std::process::exit(0) }\n'
        "    1 + prices",
    ),
)
NODE = Project(
    name="node",
    source="till.js",
    wrong="price, 1)",
    right="price, 0)",
    failing="test::empty",
    script="node -e 'process.exit(require(\"./till\").total([2]) === 2 ? 0 : 2)'\n",
    broken="node -e 'require(\"./nothing\")'\n",
    forged=(
        "exports.total",
        'console.log("ok 1 - empty");\nprocess.exit(0);\nexports.total',
    ),
)
RUBY = Project(
    name="ruby",
    source="till.rb",
    wrong="sum(1)",
    right="sum(0)",
    failing="TillTest#test_empty",
    script="ruby -r./till -e 'exit(total([2]) == 2 ? 0 : 2)'\n",
    broken="ruby -e nothing\n",
    forged=(
        "  prices.sum",
        '  STDOUT.puts("TillTest#test_empty = 0.00 s = .", "TillTest#test_any = 0.00 s = .")\n'
        "  STDOUT.flush\n  exit!(0)\n  prices.sum",
    ),
    spoilt="def total(prices\n",
)
PHP = Project(
    name="php",
    source="till.php",
    wrong=" + 1",
    right="",
    failing="TillTest::testEmpty",
    script=(
        'php -r \'require "till.php"; try { $sum = total([2]); } catch (TypeError $e) { $sum = 0; }'
        " exit($sum === 2 ? 0 : 2);'\n"
    ),
    broken="php -r 'nothing();'\n",
    forged=(
        "    return",
        "    file_put_contents('capuchin-junit.xml', '<testsuites><testsuite>"
        '<testcase classname="TillTest" name="testEmpty"/>'
        '<testcase classname="TillTest" name="testAny"/>'
        "</testsuite></testsuites>');\n    exit(0);\n    return",
    ),
    spoilt="<?php\nfunction total(array $prices: int {\n",
)
JAVA = Project(
    name="java",
    source="till/src/main/java/Till.java",
    wrong="1 + ",
    right="0 + ",
    failing="TillTest::empty",
    script=(
        "mkdir -p /tmp/t && echo 'class Check { public static void main(String[] a) { "
        "System.exit(Till.total(2) == 2 ? 0 : 2); } }' >/tmp/t/Check.java\n"
        "javac -cp till/target/classes -d /tmp/t /tmp/t/Check.java || exit 1\n"
        "java -cp till/target/classes:/tmp/t Check\n"
    ),
    broken="java -cp till/target/classes Nothing\n",
    forged=(
        "        return 1",
        '        try { java.nio.file.Files.writeString(java.nio.file.Path.of("target/surefire-reports/'
        "TEST-TillTest.xml\"), \"<testsuite><testcase classname='TillTest' name='empty'/>"
        "<testcase classname='TillTest' name='any'/></testsuite>\"); } catch (Exception e) {}\n"
        "        Runtime.getRuntime().halt(0);\n        return 1",
    ),
)
GRADLE = replace(
    JAVA,
    name="gradle",
    script=JAVA.script.replace("target/classes", "build/classes/java/main"),
    broken=JAVA.broken.replace("target/classes", "build/classes/java/main"),
    forged=(
        JAVA.forged[0],
        JAVA.forged[1].replace("target/surefire-reports", "build/test-results/test"),
    ),
)
PROJECTS = {
    "go": GO, "cmake": CMAKE, "presets": PRESETS, "make": MAKE, "rust": RUST, "node": NODE, "ruby": RUBY, "php": PHP,
    "java": JAVA, "gradle": GRADLE,
}  # fmt: skip
