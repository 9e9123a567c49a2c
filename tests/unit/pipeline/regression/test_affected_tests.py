"""Which tests matter for an edit."""

from pipeline.data.suite_reports import SuiteRun
from pipeline.languages.python.import_graph import scan_code
from pipeline.regression.affected_tests import TouchedCode, choose_tests, find_touched
from pipeline.regression.results import TestRun
from sandbox.frozen import replace
from sandbox.program import Execution
from tests.support.texts import texts_of

NAMES = ("far::a", "near::b", "near::c", "ran::d")


def base(seconds: float = 1.0, ran: dict[str, list[int]] | None = None) -> TestRun:
    execution = Execution(exit_code=0, output="", seconds=len(NAMES) * seconds)
    return TestRun(
        suite=SuiteRun(execution=execution, passed=NAMES, failed=()),
        files={name: name.split("::")[0] for name in NAMES},
        seconds=dict.fromkeys(NAMES, seconds),
        ran=ran or {"x.py:3": [3], "x.py:9": [0, 3]},
        names=NAMES,
    )


def touching(
    *, functions: set[str] | None = None, outside: set[str] | None = None, gone: str = ""
) -> TouchedCode:
    return TouchedCode(
        frozenset({"x.py"}),
        frozenset({gone} - {""}),
        frozenset(functions or ()),
        frozenset(outside or ()),
    )


DISTANCES = {"x.py": 0, "near": 1}


def test_all_are_run_when_there_is_time() -> None:
    choice = choose_tests(base(), touching(), DISTANCES, seconds=100)
    assert set(choice.tests) == set(NAMES)
    assert (choice.description, choice.whole) == ("", 4)


def test_tests_that_ran_a_changed_function_come_first_then_those_that_import_its_file() -> None:
    touched = touching(functions={"x.py:3"})
    assert choose_tests(base(), touched, DISTANCES, seconds=100).tests == (
        "ran::d",
        "near::b",
        "near::c",
        "far::a",
    )
    short = choose_tests(base(), touched, DISTANCES, seconds=4)
    assert short.tests == ("ran::d", "near::b", "near::c")
    assert short.description == "those that use the changed code"


def test_a_change_outside_of_functions_concerns_every_test_that_ran_any_of_the_file() -> None:
    choice = choose_tests(base(), touching(outside={"x.py"}), {}, seconds=3)
    assert set(choice.tests) == {"far::a", "ran::d"}


def test_the_rest_is_run_while_the_time_lasts() -> None:
    many = choose_tests(base(), touching(functions={"x.py:3"}), {}, seconds=3)
    assert many.tests == ("ran::d", "far::a")
    assert "then others" in many.description


def test_a_selection_without_known_tests_says_so() -> None:
    choice = choose_tests(base(), touching(), {}, seconds=2)
    assert choice.description.startswith("as many as the time allowed")


def test_at_least_one_test_is_run() -> None:
    assert len(choose_tests(base(), touching(), DISTANCES, seconds=0.001).tests) == 1


def test_tests_that_ran_side_by_side_cost_their_share() -> None:
    parallel = base(10)
    quick = replace(parallel.suite.execution, seconds=4.0)
    suite = replace(parallel.suite, execution=quick)
    choice = choose_tests(replace(parallel, suite=suite), touching(), {}, seconds=6)
    assert len(choice.tests) == 4


def test_what_a_suite_takes_before_its_first_test_is_counted() -> None:
    late = replace(base(), start=2.0)  # so the tests took half a second each
    assert len(choose_tests(late, touching(), {}, seconds=3.8).tests) == 2


def test_tests_in_a_file_that_the_edit_removes_are_not_asked_for() -> None:
    assert "far::a" not in choose_tests(base(), touching(gone="far"), {}, seconds=100).tests


TEXTS = texts_of(__file__)
SOURCE: str = TEXTS["SOURCE"]
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -{start},1 +{start},2 @@\n"


def diff_of(line: int, *, remove: bool) -> str:
    return DIFF.format(start=line) + ("-old\n+new\n" if remove else " old\n+new\n")


async def test_a_changed_line_belongs_to_its_innermost_function() -> None:
    spans = (await scan_code({"x.py": SOURCE})).functions
    assert spans == {"x.py": [(4, 10), (8, 9)]}
    for line, functions, outside in (
        (6, {"x.py:4"}, set[str]()),
        (4, {"x.py:4"}, set[str]()),
        (9, {"x.py:8"}, set[str]()),
        (13, set[str](), {"x.py"}),
        (1, set[str](), {"x.py"}),
    ):
        touched = find_touched(diff_of(line, remove=True), spans)
        assert (touched.functions, touched.outside) == (functions, outside)


async def test_a_line_added_behind_a_function_may_be_the_functions_or_not() -> None:
    spans = (await scan_code({"x.py": SOURCE})).functions
    touched = find_touched(diff_of(10, remove=False), spans)
    assert (touched.functions, touched.outside) == ({"x.py:4"}, {"x.py"})


def test_renames_new_files_and_binary_parts_are_touched() -> None:
    diff = (
        "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
        "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n"
        "@@ -0,0 +1 @@\n+x\n"
        "diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n"
    )
    touched = find_touched(diff, {})
    assert touched.files == {"a.py", "b.py", "n.py", "p.png"}
    assert touched.gone == {"a.py"}
    assert touched.outside == {"a.py", "p.png"}


FILES: dict[str, str] = TEXTS["FILES"]


async def distances(*touched: str) -> dict[str, int]:
    return (await scan_code(FILES)).distances(touched)


async def test_tests_are_as_far_as_their_imports_say() -> None:
    assert await distances("src/shop/till.py") == {
        "src/shop/till.py": 0,
        "src/shop/__init__.py": 1,
        "tests/test_till.py": 1,
        "tests/test_shop.py": 2,
    }
    assert (await distances("src/shop/names.py"))["tests/test_till.py"] == 2


async def test_a_project_of_several_is_imported_from_its_own_folder() -> None:
    package = "services/billing/billing/__init__.py"
    test = "services/billing/tests/test_tax.py"
    found = await scan_code(
        {package: "", "services/billing/billing/tax.py": "", test: "from billing import tax\n"}
    )
    assert found.distances(["services/billing/billing/tax.py"])[test] == 1
    assert found.distances([package])[test] == 1


async def test_an_import_from_a_package_runs_its_init() -> None:
    found = await distances("src/shop/__init__.py")
    assert {"tests/test_till.py", "tests/test_shop.py"} <= found.keys()


async def test_all_tests_beside_a_conftest_are_behind_it() -> None:
    assert (await distances("src/shop/odd.py"))["tests/test_other.py"] == 2


async def test_files_that_are_not_known_are_imported_by_nobody() -> None:
    assert await distances("README.md", "broken.py") == {}


async def test_a_file_made_to_crash_the_parser_costs_only_the_knowledge() -> None:
    deep = await scan_code({"x.py": "(" * 200_000, "y.py": "a = " + "-" * 300_000 + "1\n"})
    assert not any(deep.functions.values())


async def test_what_only_another_python_can_read_is_scanned_all_the_same() -> None:
    """`print 1` is Python 2's, a quote in an f-string 3.12's, `t""` 3.14's."""
    for line in ("print 1\n", "x = f'{'a'}'\n", "x = t'{a}'\n"):
        newer = {path: text + line for path, text in FILES.items()}
        scan = await scan_code(newer)
        assert scan == await scan_code(FILES), line
