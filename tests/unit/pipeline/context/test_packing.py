from pipeline.context.packing import FileBudget, fit_file, pack
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import SourceFile

TOKENS = {"a.py": 500, "b.py": 300, "huge.py": 9000, "named.py": 700, "tests/t.py": 100}


def test_sources_come_first_and_tests_have_a_part_kept_for_them() -> None:
    rooms, left = pack(["tests/t.py", "a.py", "b.py"], TOKENS, 800, tests={"tests/t.py"})
    assert rooms == [FileBudget("a.py", 500), FileBudget("tests/t.py", 100)]
    assert left == ["b.py"]


def test_a_file_that_alone_exceeds_the_budget_enters_in_parts() -> None:
    rooms, left = pack(["a.py", "huge.py", "b.py"], TOKENS, 2000)
    assert rooms == [FileBudget("a.py", 500), FileBudget("huge.py", 1500)]
    assert left == ["b.py"]


def test_files_fill_the_budget_by_rank_with_a_cut_not_by_what_happens_to_fit() -> None:
    rooms, left = pack(["a.py", "named.py", "b.py"], TOKENS, 1000)
    assert rooms == [FileBudget("a.py", 500), FileBudget("named.py", 500)]
    assert left == ["b.py"]


def test_what_the_issue_names_never_falls_out_and_keeps_its_place() -> None:
    rooms, _ = pack(["a.py", "b.py", "named.py"], TOKENS, 1000, named={"named.py"})
    assert rooms == [FileBudget("b.py", 300), FileBudget("named.py", 700)]
    rooms, _ = pack(["huge.py", "named.py", "a.py"], TOKENS, 1200, named={"huge.py", "named.py"})
    assert {room.path: room.tokens for room in rooms} == {"named.py": 600, "huge.py": 600}


async def test_parts_are_those_that_the_issue_speaks_of_and_gaps_are_reported() -> None:
    text = "import os\n\n\n" + "".join(
        f"def part_{n}(value):\n    return value + {n}\n\n\n" for n in range(400)
    )
    file = SourceFile(path="big.py", text=text, tokens=estimate_tokens(text))
    parts = await fit_file(file, 1500, about="part_217 returns too much")
    assert parts.partial
    assert parts.tokens <= 1500
    assert "def part_217(value):\n    return value + 217\n" in parts.text
    assert "are left out ...]\n" in parts.text
    assert parts.text.count("def part_217") == 1
    read = await fit_file(file, 1500, about="nothing", lines=[(1200, 1210)])
    assert "def part_300" in read.text
    assert await fit_file(file, 100_000, about="") is file
