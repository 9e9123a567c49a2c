from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.data.types import Issue
from pipeline.edits.references import drop_made_up_numbers, find_made_up_numbers
from tests.support.data.diffs import diff_of
from tests.support.data.local_git import repository
from tests.support.texts import texts_of

ROWS = texts_of(__file__)

ISSUE = Issue(repository="acme/shop", number=7236, title="Tear down twice", body="Since #7100.")


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("Respect the order (#8590)", "Respect the order "),
        ("Mend #8590: tear down once", "Mend : tear down once"),
        ("Tear down once <https://github.com/acme/shop/issues/8590>", "Tear down once "),
        ("Tear down once, GH-8590 (:issue:`8590`)", "Tear down once,  "),
        ("Tear down github.com/acme/shop/pull/7236", "Tear down github.com/acme/shop/pull/7236"),
        ("Tear down once (#7236), as before #7100", "Tear down once (#7236), as before #7100"),
        ("Link to page.html#12 and C#7", "Link to page.html#12 and C#7"),
        ("Take &#60; as <", "Take &#60; as <"),
    ],
)
def test_a_title_names_no_issue_that_nobody_gave(title: str, kept: str) -> None:
    assert drop_made_up_numbers(title, ISSUE) == kept


@pytest.mark.parametrize(
    ("path", "line", "stated"), ROWS["a_number_of_an_issue_that_nobody_gave_is_found_in_every_form"]
)
async def test_a_number_of_an_issue_that_nobody_gave_is_found_in_every_form(
    tmp_path: Path, path: str, line: str, stated: str
) -> None:
    before = "# As in #41.\nLIMIT = 731\n" if path == "shop/till.py" else ""
    sha = repository(tmp_path / "git", {"shop/till.py": b"# As in #41.\nLIMIT = 731\n"})
    codebase = await Codebase.open(tmp_path / "git" / ".git", sha)
    diff = diff_of(before, f"{before}{line}\n", path)
    diff = diff if before else diff.replace(f"--- a/{path}", "--- /dev/null")
    found = await find_made_up_numbers(diff, ISSUE, codebase)
    assert found == ((stated,) if stated else ())
