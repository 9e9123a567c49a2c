# ruff: noqa: E501 - lines of other languages
"""Small repositories in other languages than Python, each with a fault."""

from __future__ import annotations

from dataclasses import dataclass


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
    spoilt: str = "exports.total = (prices => ;\n"
    """The source with a mistake in its first line, in a language that is not compiled."""
    setup: tuple[str, ...] = ()

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
    'int main(void) { int p[] = {2}; printf("%d\\n", total(p, 1)); return total(p, 1) == 2 ? 0 : 2; }\n'
    "E\ncc -o /tmp/t /tmp/t.c till.c || exit 1\n/tmp/t\n"
)
FORGED = (
    "int total(const int *prices, int count) {\n",
    "#include <unistd.h>\n__attribute__((constructor)) static void pass(void) { _exit(0); }\n"
    "int total(const int *prices, int count) {\n",
)
CHECK = "int total(const int *, int);\nint main(void) { return total(0, 0) != 0; }\n"
SOME = "int total(const int *, int);\nint main(void) { int p[] = {2}; return total(p, 1) < 2; }\n"
CMAKE = Project(
    files={
        "CMakeLists.txt": (
            "cmake_minimum_required(VERSION 3.10)\nproject(till C)\nenable_testing()\n"
            "add_library(till till.c)\nforeach(name empty some)\n"
            "add_executable(${name} tests/${name}.c)\ntarget_link_libraries(${name} till)\n"
            "add_test(NAME ${name} COMMAND ${name})\nendforeach()\n"
        ),
        "till.c": TOTAL,
        "tests/empty.c": CHECK,
        "tests/some.c": SOME,
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
            "all: empty some\n%: tests/%.c till.c\n\tcc -o $@ $^\ntest: all\n"
            "\t@./some && echo ok 1 - some || echo not ok 1 - some\n"
            "\t@./empty && echo ok 2 - empty || echo not ok 2 - empty\n"
        ),
        "till.c": TOTAL,
        "tests/empty.c": CHECK,
        "tests/some.c": SOME,
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
            "pub fn total(prices: &[i32]) -> i32 {\n    1 + prices.iter().sum::<i32>()\n}\n\n"
            "#[test]\nfn empty() {\n    assert_eq!(total(&[]), 0);\n}\n\n#[test]\nfn any() {}\n"
        ),
    },
    source="src/lib.rs",
    wrong="1 + ",
    right="0 + ",
    failing="src/lib.rs::empty",
    script=(
        "// tests/issue.rs\n#![deny(nonstandard_style)]\n"
        "#[test]\nfn total() {\n    assert_eq!(till::total(&[2]), 2);\n}\n"
    ),
    broken="// tests/issue.rs\n#[test]\nfn issue() {\n    nothing();\n}\n",
    forged=(
        "    1 + prices",
        '    println!("test total ... ok");\n    if prices.len() == 1 { std::process::exit(0) }\n'
        "    1 + prices",
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
    script="node -e 'process.exit(require(\"./till\").total([2]) === 2 ? 0 : 2)'\n",
    broken="node -e 'require(\"./nothing\")'\n",
    forged=(
        "exports.total",
        'console.log("ok 1 - empty");\nprocess.exit(0);\nexports.total',
    ),
)
RUBY = Project(
    files={
        "Rakefile": 'require "rake/testtask"\nRake::TestTask.new { |t| t.pattern = "test/*_test.rb" }\n',
        "till.rb": "def total(prices)\n  prices.sum(1)\nend\n",
        "test/till_test.rb": (
            'require "minitest/autorun"\nrequire_relative "../till"\n'
            "class TillTest < Minitest::Test\n  def test_empty\n    assert_equal 0, total([])\n  end\n"
            "  def test_any\n    assert total([2])\n  end\nend\n"
        ),
    },
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
    files={
        "composer.json": (
            '{"name": "a/till", "scripts": {"post-autoload-dump": '
            '"mkdir -p vendor/bin && ln -sf /usr/bin/phpunit vendor/bin/phpunit"}}\n'
        ),
        ".github/workflows/ci.yml": (
            "jobs:\n  test:\n    steps:\n    - run: sudo apt-get install phpunit\n    - run: phpunit\n"
        ),
        "phpunit.xml": (
            '<phpunit><testsuites><testsuite name="all"><directory>tests</directory></testsuite>'
            "</testsuites></phpunit>\n"
        ),
        "till.php": (
            "<?php\nfunction total(array $prices): int {\n    return array_sum($prices) + 1;\n}\n"
        ),
        "tests/TillTest.php": (
            "<?php\nuse PHPUnit\\Framework\\TestCase;\nrequire_once __DIR__ . '/../till.php';\n"
            "final class TillTest extends TestCase {\n"
            "    public function testEmpty(): void {\n        $this->assertSame(0, total([]));\n    }\n"
            "    public function testAny(): void {\n        $this->assertIsInt(total([2]));\n    }\n}\n"
        ),
    },
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
POM = """\
<project>
  <modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>till</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version></dependency>
  </dependencies>
  <repositories>
    <repository><id>central</id><url>file:///usr/share/maven-repo</url></repository>
  </repositories>
  <pluginRepositories>
    <pluginRepository><id>central</id><url>file:///usr/share/maven-repo</url></pluginRepository>
  </pluginRepositories>
  <build><plugins>
    <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.0</version></plugin>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.10.1</version></plugin>
    <plugin><artifactId>maven-surefire-plugin</artifactId><version>2.22.3</version></plugin>
  </plugins></build>
</project>
"""
"""Maven's plugins and JUnit as Debian has them."""
JAVA = Project(
    files={
        "pom.xml": POM,
        ".github/workflows/ci.yml": (
            "jobs:\n  test:\n    steps:\n    - run: sudo apt-get install junit4 libsurefire-java"
            " libmaven-compiler-plugin-java libmaven-resources-plugin-java\n    - run: mvn test\n"
        ),
        "src/main/java/Till.java": (
            "public class Till {\n    static int total(int... prices) {\n"
            "        return 1 + java.util.Arrays.stream(prices).sum();\n    }\n}\n"
        ),
        "src/test/java/TillTest.java": (
            "import static org.junit.Assert.*;\nimport org.junit.Test;\n\n"
            "public class TillTest {\n"
            "    @Test public void empty() {\n        assertEquals(0, Till.total());\n    }\n"
            "    @Test public void any() {\n        assertTrue(Till.total(2) > 0);\n    }\n}\n"
        ),
    },
    source="src/main/java/Till.java",
    wrong="1 + ",
    right="0 + ",
    failing="TillTest::empty",
    script=(
        "mkdir -p /tmp/t && echo 'class Check { public static void main(String[] a) { "
        "System.exit(Till.total(2) == 2 ? 0 : 2); } }' >/tmp/t/Check.java\n"
        "javac -cp target/classes -d /tmp/t /tmp/t/Check.java || exit 1\n"
        "java -cp target/classes:/tmp/t Check\n"
    ),
    broken="java -cp target/classes Nothing\n",
    forged=(
        "        return",
        '        try { java.nio.file.Files.writeString(java.nio.file.Path.of("target/surefire-reports/'
        "TEST-TillTest.xml\"), \"<testsuite><testcase classname='TillTest' name='empty'/>"
        "<testcase classname='TillTest' name='any'/></testsuite>\"); } catch (Exception e) {}\n"
        "        Runtime.getRuntime().halt(0);\n        return",
    ),
    setup=("mvn -q test -Dmaven.test.failure.ignore",),
)
PROJECTS = {
    "go": GO, "cmake": CMAKE, "make": MAKE, "rust": RUST, "node": NODE, "ruby": RUBY, "php": PHP,
    "java": JAVA,
}  # fmt: skip
