"""In which order the candidates of a vote come."""

import dataclasses

from pipeline.data.types import Patch
from pipeline.selection.methods import rank_candidates
from pipeline.selection.scoring.standings import build_standings
from sandbox.frozen import replace
from tests.support.data.votes import vote_table

CODE = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n-a\n+b\n"
TEST = "--- a/tests/test_shop.py\n+++ b/tests/test_shop.py\n@@ -1 +1,2 @@\n a\n+assert b\n"


def test_of_equal_code_tests_count_for_more_than_what_the_text_is_like() -> None:
    """Seen with pylint's issue 4604: the more an edit held beside its code, the less it looked like
    others that are right."""
    table = vote_table([2, 2], [[0, 0], [0, 0]])
    candidates = [
        replace(one, patch=Patch(diff=diff))
        for one, diff in zip(table.candidates, (CODE, CODE + TEST), strict=True)
    ]
    table = replace(table, candidates=tuple(candidates))
    standings = build_standings(table, issue="b", repository="acme/shop")
    entries = [
        replace(one, prior=prior, same_as=0)
        for one, prior in zip(standings.entries, (0.9, 0.3), strict=True)
    ]
    standings = dataclasses.replace(standings, entries=tuple(entries))
    assert rank_candidates("evidence", standings) == [1, 0]
    other = [entries[0], replace(entries[1], same_as=1)]
    standings = dataclasses.replace(standings, entries=tuple(other))
    assert rank_candidates("evidence", standings) == [0, 1]
