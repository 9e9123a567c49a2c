"""A process reward model is trained on the question that the search asks it."""

import pytest

from pipeline.data.code_places import Located, Place, SuspectFile
from pipeline.data.types import Issue
from pipeline.lab.learning.training_rows import (
    ChangedLines,
    names_files,
    names_places,
    render_step,
)
from pipeline.localisation.process_reward import render_judgement
from tests.support.data.diffs import diff_of

ISSUE = Issue(repository="shop", title="total() subtracts", body="It should add.")


def test_the_question_about_an_edit_is_that_of_the_search() -> None:
    files = (SuspectFile(path="shop/till.py"),)
    place = Place(path="shop/till.py", first=3, last=4, scope="def total(p):", code="r = 0\nr -= p")
    lines = ChangedLines(
        path="shop/till.py", first=3, last=4, heading="def total(p):", code="r = 0\nr -= p"
    )
    paths = ["shop/till.py"]
    assert render_step(ISSUE, paths, ()) == render_judgement(ISSUE, Located(files=files))
    both = Located(files=files, places=(place,))
    assert render_step(ISSUE, paths, [lines]) == render_judgement(ISSUE, both)


@pytest.mark.parametrize(
    ("paths", "right"),
    [
        (["shop/a.py"], True),
        (["shop/a.py", "shop/b.py"], True),
        (["shop/a.py", "shop/b.py", "shop/c.py"], False),
        (["shop/b.py"], False),
    ],
)
def test_who_names_every_file_has_found_none(paths: list[str], right: bool) -> None:
    assert names_files(paths, diff_of("a\n", "b\n", "shop/a.py")) is right


@pytest.mark.parametrize(
    ("spans", "right"),
    [
        ([(20, 24)], True),
        ([(1, 500)], False),
        ([(20, 24), (100, 101)], True),
        ([(20, 24), (100, 101), (200, 201)], False),
    ],
)
def test_who_names_every_line_has_found_none(spans: list[tuple[int, int]], right: bool) -> None:
    before = "".join(f"line {n}\n" for n in range(1, 300))
    reference = diff_of(before, before.replace("line 22\n", "other\n"), "shop/a.py")
    places = [Place(path="shop/a.py", first=first, last=last, scope="", code="")
              for first, last in spans]  # fmt: skip
    assert names_places(places, reference) is right
