from __future__ import annotations

import pytest

from pipeline.data.types import Issue
from pipeline.edits.references import drop_made_up_numbers

ISSUE = Issue(repository="acme/shop", number=7236, title="Tear down twice", body="Since #7100.")


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("Respect the order (#8590)", "Respect the order"),
        ("Mend #8590: tear down once", "Mend : tear down once"),
        ("Tear down once (#7236), as before #7100", "Tear down once (#7236), as before #7100"),
        ("Link to page.html#12 and C#7", "Link to page.html#12 and C#7"),
        ("Take &#60; as <", "Take &#60; as <"),
    ],
)
def test_a_title_names_no_issue_that_nobody_gave(title: str, kept: str) -> None:
    assert drop_made_up_numbers(title, ISSUE) == kept
