"""What could forge results is named; what honest edits hold is not."""

import pytest

from pipeline.edits.suspicious import find_suspicious
from tests.support.data.diffs import added_file
from tests.support.texts import texts_of

ROWS = texts_of(__file__)


def added(path: str, *lines: str, new: bool = True) -> str:
    diff = added_file(path, "\n".join(lines))
    return diff if new else diff.replace("/dev/null", f"a/{path}")


@pytest.mark.parametrize(("path", "line", "words"), ROWS["what_can_forge_results_is_named"])
def test_what_can_forge_results_is_named(path: str, line: str, words: str) -> None:
    found = find_suspicious(added(path, line))
    assert [words in sentence and f"`{path}`" in sentence for sentence in found] == [True]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    async def test_count(self):", "test_count"),
        ("func TestCount(t *testing.T) {", "TestCount"),
        ("  it('counts', () => {", "counts"),
        ("    public void testCount() {", "testCount"),
        ("    fn test_count() {", "test_count"),
    ],
)
def test_a_test_that_is_taken_out_is_named_unless_it_moves(line: str, name: str) -> None:
    gone = f"--- a/tests/x\n+++ b/tests/x\n@@ -1,2 +1,1 @@\n-{line}\n kept\n"
    assert find_suspicious(gone) == (f"takes out the test `{name}`.",)
    moved = f"--- a/tests/y\n+++ b/tests/y\n@@ -1,1 +1,2 @@\n+{line}\n kept\n"
    assert find_suspicious(gone + moved) == ()


@pytest.mark.parametrize(
    ("above", "new", "definition"),
    [
        ("    # Adds both.", "    def other(self):", "    def total(self):"),
        ("@cache", "class Other:", "def total(a):"),
        ("// Total adds both.", "func Other() int {", "func Total(a int) int {"),
        ("/// Adds both.", "fn other() {", "pub(crate) fn total(a: i32) -> i32 {"),
        (" */", "export function other() {", "export async function total(a) {"),
        ("\t */", "\tprivate int other() {", "\tpublic static int total(int a) {"),
        ("/* Adds both. */", "static char *other(void)", "unsigned long total(int a)"),
        ("[Obsolete]", "public int Other() {", "public int Total(int a) {"),
    ],
)
def test_a_definition_that_is_parted_from_its_comment_is_named(
    above: str, new: str, definition: str
) -> None:
    def diff(*lines: str) -> str:
        return "--- a/x\n+++ b/x\n@@ -1,3 +1,9 @@\n" + "".join(f"{line}\n" for line in lines)

    (said,) = find_suspicious(diff(f" {above}", f"+{new}", "+  1", "+", f" {definition}"))
    assert f"`{definition.strip()}`" in said
    honest = (
        (f" {above}", f"+{new}", "+  1", "+", f"+{above}", f" {definition}"),
        (f"+{above}", f"+{new}", "+  1", "+", f" {definition}"),
        (f" {above}", "+  x = 1", f" {definition}"),
        (f" {above}", "-  1", f"+{new}", f" {definition}"),
        (f" {above}", " ", f"+{new}", "+", f" {definition}"),
    )
    assert [find_suspicious(diff(*lines)) for lines in honest] == [()] * 5


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "tox.ini"])
def test_settings_of_tests_in_shared_files_are_named(name: str) -> None:
    (sentence,) = find_suspicious(added(name, "addopts = -p mine", new=False))
    assert "how tests run" in sentence


STEERS = (
    "package.json Makefile Cargo.toml composer.json gradlew mvnw web/package.json Rakefile"
    " vendor/bin/phpunit CMakeLists.txt meson.build go.mod pom.xml"
)


@pytest.mark.parametrize("path", STEERS.split())
def test_files_that_say_how_tests_run_are_named(path: str) -> None:
    (sentence,) = find_suspicious(added(path, "x", new=False))
    assert sentence == f"changes `{path}`, which says how tests run."


def test_a_comparison_over_two_lines_is_named() -> None:
    diff = added("a.py", "class A(int):", "    def __eq__(self, other):", "", "        return True")
    assert find_suspicious(diff) == (
        "makes objects of `a.py` equal to everything, so that comparing them shows nothing.",
    )


@pytest.mark.parametrize(
    "diff",
    [
        added("pkg/types.py", "x = 1"),
        added("types.py", "x = 1", new=False),
        added("test/__init__.py", "x = 1"),
        added("a.py", "    def __eq__(self, other):", "        return self.a == other.a"),
        added("a.py", "    def __bool__(self):", "        return False"),
        added("a.py", "sys.stdout = io.StringIO()", "sys.path = []", "os.environ = {}"),
        added("a.py", "if sys.platform == 'win32':", "os.path.join(a)", "sys.exit(1)"),
        added("pyproject.toml", "dependencies = ['six']", "version = '2'", new=False),
        "--- a/conf.py\n+++ b/conf.py\n@@ -1 +1 @@\n-os._exit(0)\n+pass\n",
    ],
)
def test_honest_edits_are_not(diff: str) -> None:
    assert find_suspicious(diff) == ()


def test_a_few_sentences_are_enough() -> None:
    diff = "".join(added(f"{n}/conftest.py", "import atexit") for n in range(50))
    assert len(find_suspicious(diff)) == 3
