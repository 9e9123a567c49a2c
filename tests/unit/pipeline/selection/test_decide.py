"""What a model is shown that decides, and what of the repository's tests counts."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pipeline.data.options import Options
from pipeline.data.suite_reports import SuiteReport
from pipeline.edits.patches import create_patch
from pipeline.selection.decide import AROUND, AROUND_BESIDE, MAX_CHARACTERS, read_edited_files
from pipeline.selection.judge import SuiteResults
from pipeline.store import DirStore
from tests.support.data.publishing import a_selection
from tests.support.data.repositories import make_codebase

LINES = [f"value_{number} = {number}\n" for number in range(5000)]
assert len("".join(LINES)) > MAX_CHARACTERS


async def test_a_long_file_is_shown_around_its_changes_and_a_new_one_not(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"long.py": "".join(LINES), "x.py": "1\n"})
    edited = [*LINES]
    edited[2500] = "value_2500 = 0\n"
    changes = {"long.py": "".join(edited).encode(), "x.py": b"2\n", "new.py": b"3\n"}
    diff = (await create_patch(codebase, changes)).diff
    long, short = sorted(await read_edited_files(codebase, [diff, diff]), key=lambda f: f.path)
    assert (long.path, long.partial, short.text, short.partial) == ("long.py", True, "1\n", False)
    assert "value_2500 = 2500\n" in long.text
    assert f"value_{2500 - AROUND} = " in long.text
    assert "value_0 = " not in long.text
    assert long.text.startswith("[... lines 1 to ")
    assert long.text.rstrip().endswith("to 5000 left out ...]")


async def test_of_tests_and_documentation_less_is_shown_around_the_changes(tmp_path: Path) -> None:
    """Whole, they were half of what the choice cost."""
    files = {name: "".join(LINES[:1500]) for name in ("code.py", "docs/use.rst", "tests/test_a.py")}
    codebase = await make_codebase(tmp_path / "r.git", files)
    edited = [*LINES[:1500]]
    edited[700] = "value_700 = 0\n"
    changes = {name: "".join(edited).encode() for name in files}
    diff = (await create_patch(codebase, changes)).diff
    shown = {file.path: file for file in await read_edited_files(codebase, [diff])}
    assert [path for path, file in shown.items() if file.partial] == [*files][1:]
    assert f"value_{700 - AROUND_BESIDE} = " in shown["docs/use.rst"].text
    assert f"value_{700 - AROUND_BESIDE - 10} = " not in shown["docs/use.rst"].text


async def test_what_ran_near_an_edit_counts_where_the_suite_itself_has_no_result(
    tmp_path: Path,
) -> None:
    proof = a_selection().evidence

    class Suite:
        problem = "The time was over."

        async def compare_all(self, diffs: Sequence[str]) -> list[SuiteReport | None]:
            return [None for _ in diffs]

        async def load_near(self, _diff: str) -> SuiteReport | None:
            return proof.suite

    space = SimpleNamespace(store=DirStore(tmp_path), options=Options())
    results = SuiteResults(cast(Any, Suite()), cast(Any, space))
    assert await results.run(proof.votes, [0]) == [proof.suite]
