"""A process reward model is trained on the question that the search asks it."""

from __future__ import annotations

from pipeline.data.code_places import Located, Place, SuspectFile
from pipeline.data.types import Issue
from pipeline.lab.learning.training_rows import ChangedLines, render_step
from pipeline.localisation.process_reward import render_judgement

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
