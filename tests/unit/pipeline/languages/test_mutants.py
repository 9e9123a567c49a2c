"""Edits with one thing wrong, in each language that has a grammar."""

from __future__ import annotations

import pytest

from pipeline.languages.mutants import MOST_MUTANTS, spoil

HEAD = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n"
ONE = "@@ -1,2 +1,2 @@\n def f(a):\n-    return a\n+    return a == 1\n"
TWO = "@@ -9,2 +9,2 @@\n def g(a):\n-    pass\n+    go(a)\n"


async def test_an_added_line_says_another_thing() -> None:
    (spoilt,) = await spoil(HEAD.format("a.py") + ONE)
    assert spoilt == (HEAD.format("a.py") + ONE).replace("==", "!=")


async def test_each_of_several_hunks_is_left_out_and_so_is_a_file_without_any() -> None:
    diff = HEAD.format("a.py") + TWO + HEAD.format("b.py") + TWO + TWO.replace("9", "30")
    spoilt = await spoil(diff)
    assert HEAD.format("b.py") + TWO + TWO.replace("9", "30") in spoilt
    assert HEAD.format("a.py") + TWO + HEAD.format("b.py") + TWO in spoilt
    assert len(spoilt) <= MOST_MUTANTS


async def test_what_cannot_be_spoilt_has_no_mutants() -> None:
    assert await spoil(HEAD.format("a.txt") + ONE) == ()
    assert await spoil(HEAD.format("a.py") + TWO) == ()
    assert await spoil("") == ()


async def test_what_a_string_says_is_not_spoilt() -> None:
    """A word in a pattern, which the edit had not changed, was turned around."""
    assert (
        await spoil(HEAD.format("a.py") + TWO.replace("go(a)", "go(r'or|not', \"it's == and\")"))
        == ()
    )
    mixed = TWO.replace("go(a)", "go('a or b' or c)")
    assert await spoil(HEAD.format("a.py") + mixed) == (
        HEAD.format("a.py") + mixed.replace("' or c", "' and c"),
    )


async def test_tests_and_documentation_stay_as_they_are() -> None:
    """A script never runs them, so it could not notice."""
    beside = HEAD.format("tests/test_a.py") + ONE + TWO + HEAD.format("docs/news.rst") + ONE + TWO
    (spoilt,) = await spoil(HEAD.format("a.py") + ONE + beside)
    assert spoilt == (HEAD.format("a.py") + ONE).replace("==", "!=") + beside
    assert await spoil(beside) == ()


@pytest.mark.parametrize(
    ("path", "line", "spoilt"),
    [
        ("a.js", "    if (a === b) {", "    if (a !== b) {"),
        ("a.js", "    return total(a);", "    return undefined;"),
        ("a.js", "    if (done) stop();", "    if (!(done)) stop();"),
        ("a.js", "    const text = `a === ${b}`;", ""),
        ("a.js", "    a.not.toBe(b); // a === b", ""),
        (
            "a.ts",
            "    const m: Map<string, number> = f(!ok);",
            "    const m: Map<string, number> = f(ok);",
        ),
        ("a.tsx", "    const limit = 41;", "    const limit = 42;"),
        ("a.go", "\tif ok { stop() }", "\tif !(ok) { stop() }"),
        ("a.go", "\tfor i := 0; i < n; i++ {", "\tfor i := 0; i >= n; i++ {"),
        ("a.go", "\treturn a - b, nil", "\treturn a + b, nil"),
        ("a.go", "\treturn nil", ""),
        ("a.go", '\ts := "a == b" + c', ""),
        ("a.rs", "    if a >= b || !c {", "    if a >= b || c {"),
        ("a.rs", "    let v: Vec<u8> = f();", ""),
        ("a.rs", "    if let Some(x) = y {", ""),
        ("a.rs", '    println!("{}", a == b);', ""),
        ("A.java", "        if (ok) {", "        if (!(ok)) {"),
        ("A.java", "        return x.size() <= 1;", "        return x.size() > 1;"),
        ("A.java", '        List<String> x = f("a" + b);', ""),
        ("a.c", "    if (*p == 0) {", "    if (*p != 0) {"),
        ("a.c", "    n += 2;", "    n -= 2;"),
        ("a.h", "#define MOST 8", ""),
        ("a.cpp", "    if (v.size() > 3 && ok) {", "    if (v.size() <= 3 && ok) {"),
        ("a.cc", "    std::vector<int> v;", ""),
        ("a.rb", "    return a if b", "    return nil if b"),
        ("a.rb", "    x = y and not z # a == b", "    x = y and  z # a == b"),
        ("a.php", "    return $a . $b;", "    return null;"),
        ("a.php", "    $x = $a - 1;", "    $x = $a + 1;"),
        ("a.php", "    $x = 'a == b';", ""),
        ("a.py", "    if a is not None:", "    if a is None:"),
        ("a.py", "    é = 'é' if ready else größe < 2", "    é = 'é' if ready else größe >= 2"),
        ("a.sh", "    [ $a == $b ]", ""),
        ("test/a.test.js", "    if (a === b) {", ""),
    ],
)
async def test_a_line_is_spoilt_by_the_grammar_of_its_language(
    path: str, line: str, spoilt: str
) -> None:
    """What strings, comments, types and macros say is not an operation."""
    diff = HEAD.format(path) + f"@@ -1,2 +1,3 @@\n \n+{line}\n \n"
    assert await spoil(diff) == ((diff.replace(line, spoilt),) if spoilt else ())


async def test_what_is_no_code_at_all_ends_soon_and_spoils_nothing() -> None:
    assert await spoil(HEAD.format("a.c") + "@@ -1 +1 @@\n+" + "(" * 100_000 + "\n") == ()
    many = "@@ -1 +1 @@\n+" + "9" * 5000 + "\n"
    assert await spoil(HEAD.format("a.js") + many) == ()
