"""The canonical form of a diff."""

import time

import pytest

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.selection.scoring.canonical import normalise
from pipeline.selection.scoring.lexing import Capture, find_captures
from tests.support.data.diffs import added_file, diff_of
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
BASE: str = TEXTS["BASE"]
LINE = "            result += item.price\n"
RETURN = "        return result * rate\n"


def whole_file(path: str) -> str:
    return BASE


def no_file(path: str) -> None:
    return None


def changed(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new)


def changed_twice(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """By name what the base becomes when some of it is the one text, or the other."""
    return {name: [changed(old, one) for one in others] for name, (old, *others) in rows.items()}


SUBTRACTS = changed(RETURN, "        return result - rate\n")
EQUAL = {
    **changed_twice(TEXTS["EQUAL"]),
    "a docstring": [SUBTRACTS, SUBTRACTS.replace("The sum.", "Sums it all up.")],
}

DIFFERENT = changed_twice(TEXTS["DIFFERENT"])


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("whole", [False, True], ids=["diff alone", "with the file"])
def test_edits_that_differ_only_in_this_are_equal(name: str, whole: bool) -> None:
    one, other = (diff_of(BASE, after) for after in EQUAL[name])
    base = whole_file if whole else None
    assert normalise(one, base=base).key == normalise(other, base=base).key


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("whole", [False, True], ids=["diff alone", "with the file"])
def test_edits_that_differ_in_this_are_not_equal(name: str, whole: bool) -> None:
    one, other = (diff_of(BASE, after) for after in DIFFERENT[name])
    base = whole_file if whole else None
    assert normalise(one, base=base).key != normalise(other, base=base).key


@pytest.mark.parametrize("name", [*EQUAL, *DIFFERENT])
def test_the_amount_of_context_makes_no_difference(name: str) -> None:
    after = (EQUAL | DIFFERENT)[name][0]
    keys = {normalise(diff_of(BASE, after, context=n)).key for n in (2, 3, 6, 99)}
    assert len(keys) == 1


@pytest.mark.parametrize("name", [*EQUAL, *DIFFERENT])
def test_normalising_again_gives_the_same(name: str) -> None:
    diff = diff_of(BASE, (EQUAL | DIFFERENT)[name][1])
    assert normalise(diff) == normalise(diff)
    assert normalise(diff.replace("\n", "\r\n")).key == normalise(diff).key


LANGUAGES = {
    "js": ("let a = 1; // x\nf(a,\n  b);", "let   a = 1;\n\nf(a, b);", "let a = 2;\nf(a, b);"),
    "go": ("x := 1 // one\nf(x)", "y  :=  1\n\nf(y)", "x := 1\nf(z)"),
    "java": ("int a = 1; /* one */\nf(a);", "int a = 1;\n\n\nf( a );", "int a = 1;\nf(b);"),
    "rs": ("let a = 1; // one\nf(a);", "let b = 1;\nf(b);", "let a = 1;\nf(c);"),
    "rb": ("a = 1 # one\nf(a)", "b = 1\nf(b)", "a = 1\nf(c)"),
    "c": ("int a = 1; /* one */\nf(a);", "int a = 1;\nf( a );", "int a = 1;\nf(b);"),
    "ts": ("let a: T = 1; // x\nf(a)", "let a : T = 1;\nf(a)", "let a: U = 1;\nf(a)"),
    "cpp": ("auto a = 1; // x\nf(a);", "auto a=1;\nf(a);", "auto a = 1;\nf(b);"),
    "cs": ("var a = 1; // x\nf(a);", "var a=1;\nf(a);", "var a = 1;\nf(b);"),
    "php": ("$a = 1; // x\nf($a);", "$a=1;\nf($a);", "$a = 1;\nf($b);"),
    "sh": ("# one\nrun --now", "run   --now", "run --then"),
}  # fmt: skip


@pytest.mark.parametrize("suffix", LANGUAGES)
def test_other_languages_are_read_by_their_own_grammar(suffix: str) -> None:
    head = "<?php\nfunction g() {\n" if suffix == "php" else "{\n"
    one, same, other = (
        normalise(diff_of(f"{head}  old();\n}}\n", f"{head}{text}\n}}\n", f"src/a.{suffix}")).key
        for text in LANGUAGES[suffix]
    )
    assert one == same
    assert one != other


def test_an_edit_of_comments_alone_is_empty() -> None:
    form = normalise(diff_of(BASE, changed("# nothing is rounded", "# all is exact")))
    assert form.empty
    other = normalise(diff_of(BASE, changed("The sum.", "A sum.")))
    assert other.empty
    assert form.key != other.key  # what is left of neither says that they are the same


def test_a_part_that_starts_inside_a_docstring_is_read_as_code() -> None:
    filler = "".join(f"    line {n}\n" for n in range(8))
    before = f'def f(a):\n    """Long.\n{filler}    It\'s here.\n    """\n    return a + 1\n'
    keys = {
        normalise(diff_of(before, before.replace("a + 1", f"a + {n}"))).key for n in (2, 3)
    }  # fmt: skip
    assert len(keys) == 2


def test_tests_documents_and_left_scripts_are_put_aside() -> None:
    edit = diff_of(BASE, changed("rate=1", "rate=2"))
    test = diff_of("a = 1\n", "a = 2\n", "tests/test_shop.py")
    form = normalise(test + edit + added_file("reproduce.py", "print(1)"))
    assert form.key == normalise(edit).key
    assert form.irrelevant_files == ("tests/test_shop.py", "reproduce.py")
    assert normalise(test + edit, whole=True).key != form.key
    assert not normalise(test).empty


def test_the_order_of_files_makes_no_difference() -> None:
    one, two = diff_of("a = 1\n", "a = 2\n", "a.py"), diff_of("b = 1\n", "b = 2\n", "b.py")
    assert normalise(one + two).key == normalise(two + one).key


HEAD = "diff --git a/x.py b/x.py\n"


def test_renames_modes_and_binary_parts_count() -> None:
    renamed = "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
    mode = HEAD + "old mode 100644\nnew mode 100755\n"
    binary = HEAD + "index 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n\n"
    other = binary.replace("KcmZ", "KcmY")
    deleted = HEAD + "deleted file mode 100644\n--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a = 1\n"
    keys = {normalise(diff).key for diff in (renamed, mode, binary, other, deleted)}
    assert len(keys) == 5


@pytest.mark.parametrize(
    "text", ["", "hello", "@@ -1 +1 @@\n-a\n+b\n", "--- a/x\n", HEAD * 2, "\0"]
)
def test_what_is_no_diff_never_raises(text: str) -> None:
    assert normalise(text).empty
    assert normalise(text + " ").key == normalise(text + " ").key


def test_texts_that_are_no_diffs_are_equal_only_to_themselves() -> None:
    assert normalise("A").key != normalise("B").key


def test_wrong_counts_hostile_bytes_and_deep_brackets_are_read_anyway() -> None:
    hunk = "--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,99 @@\n-a\n"
    for text in ("+\0" + "7\1\n", "+\ud800\n", "+" + "(" * 5000 + "\n", "+'''\n", "+é = 'ü'\n"):
        assert not normalise(hunk + text).empty


def test_a_base_that_does_not_fit_leaves_the_diff_alone() -> None:
    diff = diff_of(BASE, changed("rate=1", "rate=2"))
    assert normalise(diff, base=str.upper).key == normalise(diff).key
    assert normalise(diff, base=no_file).key == normalise(diff).key


def test_time_grows_with_the_lines_and_not_with_their_square() -> None:
    def measure(lines: int) -> float:
        best = 60.0
        for attempt in range(3):  # other processes and the collector cost time too
            after = "\n".join(f"+v{n} = f{attempt}({n}, '{n}')" for n in range(lines))
            one = f"--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,{lines} @@\n-a = 1\n{after}\n"
            began = time.thread_time()
            assert normalise(one).key != normalise(one.replace(f"'{lines - 1}'", "'0'")).key
            best = min(best, time.thread_time() - began)
        return best

    # Four times the lines: a square would be 16.
    assert measure(20_000) < 10 * measure(5_000)


CODE: str = TEXTS["CODE"]
SHAPES = {"-": "a.py", "(": "a.py", "lambda a:": "a.py", "*": "a.c", "!": "a.java", "{": "a.js"}


def captures_of(text: str, path: str) -> list[Capture]:
    grammar = grammar_of(path)
    assert grammar is not None
    tree = parse_code(grammar, text.encode())
    assert tree is not None
    return find_captures(tree, grammar)


def test_names_comments_and_texts_are_captured_with_their_scope() -> None:
    found = {(one.name, CODE[one.start : one.end], one.scope) for one in captures_of(CODE, "a.py")}
    assert {(text, scope) for name, text, scope in found if name == "bound"} == {
        *(("x", "scope"), ("y", "scope"), ("z", "scope"), ("x", "members"), ("k", "scope")),
    }
    assert {text for name, text, _ in found if name == "local"} == {"q", "v"}
    assert {text for name, text, _ in found if name == "kept"} == {"a", "b", "c", "w", "self"}
    assert {text for name, text, _ in found if name == "drop"} == {'"text"'}


def test_the_first_column_of_a_line_is_that_of_the_outermost_node_on_it() -> None:
    bound = [one for one in captures_of("  x = (y := 1)\n", "a.py") if one.name == "bound"]
    assert [one.column for one in bound] == [2, 2]


@pytest.mark.parametrize("unit", SHAPES)
def test_time_grows_with_the_code_and_not_with_its_square(unit: str) -> None:
    """tree-sitter's queries took 16 times as long for four times as many operators."""

    def measure(count: int) -> float:
        best = 60.0
        for _ in range(3):
            began = time.thread_time()
            captures_of(unit * count, SHAPES[unit])
            best = min(best, time.thread_time() - began)
        return best

    assert measure(12_000) < 10 * measure(3_000)
