# ruff: noqa: E501 - lines of other languages
"""Small repositories in other languages than Python, each with a fault."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
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
PRESETS = dataclasses.replace(
    CMAKE,
    files={
        **CMAKE.files,
        "CMakeLists.txt": CMAKE.files["CMakeLists.txt"].replace(
            "enable_testing()\n", "if(NOT SHOP_TESTS)\nreturn()\nendif()\nenable_testing()\n"
        ),
        "CMakePresets.json": (
            '{"version": 3, "configurePresets": [{"name": "release", "binaryDir": "out"}, {"name": "dev", '
            '"generator": "Ninja", "binaryDir": "out", "cacheVariables": {"SHOP_TESTS": "ON"}}]}\n'
        ),
    },
)
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
    files={
        "Cargo.toml": '[workspace]\nmembers = ["till", "web"]\nresolver = "2"\n',
        "rust-toolchain.toml": '[toolchain]\nchannel = "nightly"\n',
        "till/Cargo.toml": '[package]\nname = "till"\nversion = "0.1.0"\nedition = "2021"\n',
        "till/src/lib.rs": (
            "#![feature(never_type)]\n"
            "pub fn total(prices: &[i32]) -> i32 {\n    1 + prices.iter().sum::<i32>()\n}\n\n"
            "#[test]\nfn empty() {\n    assert_eq!(total(&[]), 0);\n}\n\n#[test]\nfn any() {}\n"
        ),
        "web/Cargo.toml": (
            '[package]\nname = "web"\nversion = "0.1.0"\nedition = "2021"\n'
            '[dependencies]\ntill = { path = "../till" }\n'
        ),
        "web/src/lib.rs": "#[test]\nfn some() {\n    assert!(till::total(&[2]) > 0);\n}\n",
    },
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
POM = """\
<project>
  <modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>shop</artifactId><version>1</version>
  <packaging>pom</packaging><modules><module>till</module><module>web</module></modules>
  <properties>
    <maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version></dependency>
  </dependencies>
  <build><plugins>
    <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.0</version></plugin>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.10.1</version></plugin>
    <plugin><artifactId>maven-surefire-plugin</artifactId><version>2.22.3</version></plugin>
    <plugin><artifactId>maven-jar-plugin</artifactId><version>3.3.0</version></plugin>
  </plugins></build>
</project>
"""
"""Maven's plugins and JUnit as Debian has them."""
MODULE = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>a</groupId><artifactId>shop</artifactId><version>1</version></parent>
  <artifactId>{}</artifactId>{}
</project>
"""
ON_TILL = "<dependencies><dependency><groupId>a</groupId><artifactId>till</artifactId><version>1</version></dependency></dependencies>"
TILL_JAVA = {
    "till/src/main/java/Till.java": (
        "public class Till {\n    static int total(int... prices) {\n"
        "        return 1 + java.util.Arrays.stream(prices).sum();\n    }\n"
        "    public static int any() {\n        return total(2);\n    }\n}\n"
    ),
    "till/src/test/java/TillTest.java": (
        "import static org.junit.Assert.*;\nimport org.junit.Test;\n\n"
        "public class TillTest {\n"
        "    @Test public void empty() {\n        assertEquals(0, Till.total());\n    }\n"
        "    @Test public void any() {\n        assertTrue(Till.total(2) > 0);\n    }\n}\n"
    ),
    "web/src/test/java/WebTest.java": (
        "import static org.junit.Assert.*;\nimport org.junit.Test;\n\n"
        "public class WebTest {\n"
        "    @Test public void some() {\n        assertTrue(Till.any() > 0);\n    }\n}\n"
    ),
}
JAVA = Project(
    files={
        "pom.xml": POM,
        "till/pom.xml": MODULE.format("till", ""),
        "web/pom.xml": MODULE.format("web", ON_TILL),
        ".github/workflows/ci.yml": (
            "jobs:\n  test:\n    steps:\n    - run: sudo apt-get install junit4 libsurefire-java"
            " libmaven-compiler-plugin-java libmaven-resources-plugin-java libmaven-jar-plugin-java\n"
            "    - run: mvn -B package --file pom.xml\n"
        ),
        **TILL_JAVA,
    },
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
GRADLE_MODULE = "plugins {\n    id 'java'\n}\nrepositories {\n    mavenCentral()\n}\ndependencies {\n    testCompile 'junit:junit:4.13.2'\n}\n"
GRADLE = dataclasses.replace(
    JAVA,
    files={
        "settings.gradle": "include 'till', 'web'\n",
        "till/build.gradle": GRADLE_MODULE,
        "web/build.gradle": GRADLE_MODULE + "dependencies {\n    compile project(':till')\n}\n",
        # The real wrapper, of which Debian has the parts; the distribution is Debian's, too.
        "gradlew": (
            "#!/bin/sh\nmkdir -p /tmp/w && cp /usr/share/java/gradle-wrapper.jar /tmp/w/\n"
            "cp gradle-wrapper.properties /tmp/w/\necho versionNumber=4.4.1 >/tmp/w/build-receipt.properties\n"
            "exec java --add-opens java.base/java.lang=ALL-UNNAMED -cp /tmp/w/gradle-wrapper.jar:/usr/share/java/gradle-cli.jar:/tmp/w"
            ' org.gradle.wrapper.GradleWrapperMain "$@"\n'
        ),
        "gradle-wrapper.properties": (
            "distributionBase=GRADLE_USER_HOME\ndistributionPath=wrapper/dists\n"
            "zipStoreBase=GRADLE_USER_HOME\nzipStorePath=wrapper/dists\n"
            "distributionUrl=file\\:///tmp/gradle-4.4.1-bin.zip\n"
        ),
        ".github/workflows/ci.yml": (
            "jobs:\n  test:\n    steps:\n    - run: sudo apt-get install junit4 zip\n"
            "    - run: mkdir gradle-4.4.1 && cp -rL /usr/share/gradle/bin /usr/share/gradle/lib gradle-4.4.1"
            " && zip -qr /tmp/gradle-4.4.1-bin.zip gradle-4.4.1 && rm -r gradle-4.4.1\n"
            "    - run: ./gradlew build --no-daemon\n"
        ),
        **TILL_JAVA,
    },
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
