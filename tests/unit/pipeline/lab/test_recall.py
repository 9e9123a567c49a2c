"""File, function and chunk: what a run named against what the reference edit changes."""

from pathlib import Path

import pytest

from pipeline.data.code_places import Context, Located, Place, SearchRecord, SuspectFile
from pipeline.data.types import VoteTable
from pipeline.lab.bundles import FinishedRun
from pipeline.lab.dataset import Dataset, Instance, LocatedInstance
from pipeline.lab.recall import (
    ANY,
    BEST,
    RIGHT,
    WRONG,
    find_spots,
    read_code,
    render_localisation,
    score_localisation,
    score_predictions,
)
from pipeline.lab.scoring import LocationScore
from tests.support.data.diffs import diff_of
from tests.support.data.repositories import make_repository
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
REFERENCE: str = TEXTS["REFERENCE"]


def place(first: int, last: int, function: tuple[int, int] | None = None) -> Place:
    return Place(path="shop/till.py", first=first, last=last, function=function)


def run(*answers: tuple[Place, ...], path: str = "shop/till.py") -> FinishedRun:
    located = tuple(Located(files=(SuspectFile(path=path),), places=places) for places in answers)
    context = Context(files=(), search=SearchRecord(width=2, located=located))
    table = VoteTable(candidates=(), tests=(), base=(), runs=())
    return FinishedRun("one", "", table, {}, {}, context=context)


def scores(*answers: tuple[Place, ...], path: str = "shop/till.py") -> dict[str, LocationScore]:
    return score_localisation([run(*answers, path=path)], {"one": REFERENCE})


def test_a_spot_is_what_changes_of_the_old_file_and_an_insertion_the_lines_around_it() -> None:
    assert [tuple(spot)[:3] for spot in find_spots(REFERENCE)] == [
        ("shop/till.py", 4, 4),
        ("shop/till.py", 20, 21),
    ]


@pytest.mark.parametrize(
    ("places", "file", "function", "chunk"),
    [
        ((place(3, 4), place(21, 21)), 100, 100, 100),
        ((place(5, 5, (1, 6)), place(21, 21)), 100, 100, 0),  # the function, not its lines
        ((place(5, 5), place(21, 21)), 100, 0, 0),
        ((place(3, 4),), 100, 0, 0),  # one of two places
        ((), 100, 0, 0),
    ],
)
def test_every_place_of_the_reference_has_to_be_found(
    places: tuple[Place, ...], file: float, function: float, chunk: float
) -> None:
    found = scores(places)[BEST]
    assert (found.file, found.function, found.chunk) == (file, function, chunk)


def test_the_best_answer_and_any_are_told_apart_and_other_files_do_not_count() -> None:
    found = scores((place(9, 9),), (place(4, 4), place(20, 20)))
    assert (found[BEST].chunk, found[ANY].chunk) == (0, 100)
    assert scores((), path="shop/names.py")[BEST].file == 0
    assert "| any answer of the search | 1 | 100.0 | 100.0 | 100.0 |" in (
        render_localisation(found)
    )


BEFORE = "".join(f"x{n} = {n}\n" for n in range(8)) + "def total(a):\n    b = a\n    return b\n"


def predictions(**edits: str) -> Dataset:
    instance = Instance(instance_id="one", repo="a/b")
    patches = {member: {"one": diff} for member, diff in edits.items() if diff}
    return Dataset(
        (instance,),
        tuple(edits),
        {member: patches.get(member, {}) for member in edits},
        {member: frozenset({"one"} if member == "same" else ()) for member in edits},
    )


def test_edits_of_others_are_compared_with_the_reference_by_the_code_before_them() -> None:
    reference = diff_of(BEFORE, BEFORE.replace("    b = a\n", "    b = -a\n"), "m.py", context=0)
    near = diff_of(BEFORE, BEFORE.replace("return b", "return -b"), "m.py", context=0)
    far = diff_of(BEFORE, BEFORE.replace("x1 = 1", "x1 = 2"), "m.py", context=0)
    other = diff_of("a\n", "b\n", "n.py")
    data = predictions(same=reference, near=near, far=far, other=other, none="")
    found = score_predictions(data, {"one": reference}, {"one": {"m.py": BEFORE}})
    assert {name: (s.file, s.function, s.chunk) for name, s in found.items()} == {
        RIGHT: (100, 100, 100),
        WRONG: (pytest.approx(200 / 3), pytest.approx(100 / 3), 0),
        "same": (100, 100, 100),
        "near": (100, 100, 0),
        "far": (100, 0, 0),
        "other": (0, 0, 0),
    }
    assert (found[WRONG].instances, found[WRONG].functions) == (3, 3)
    assert "| near | 1 | 0.0 | 100.0 | 100.0 |" in render_localisation(found)
    blind = score_predictions(data, {"one": reference}, {})
    assert (blind["near"].function, blind["near"].functions) == (None, 0)
    assert "| near | 1 | 0.0 |  | 100.0 |" in render_localisation(blind)


async def test_the_code_before_the_edits_is_read_from_clones_that_have_it(tmp_path: Path) -> None:
    commit = await make_repository(tmp_path / "a+b/repo", {"m.py": BEFORE, "n.py": ""})
    reference = diff_of(BEFORE, BEFORE + "# more\n", "m.py")
    row = {"instance_id": "one", "repo": "a/b", "base_commit": commit, "patch": reference}
    rows = [
        LocatedInstance.model_validate({**row, **other})
        for other in (
            {},
            {"instance_id": "two", "repo": "a/c"},
            {"instance_id": "three", "base_commit": "b" * 40},
        )
    ]
    assert await read_code(rows, tmp_path, {}) == {"one": {"m.py": BEFORE}}


def test_without_a_search_a_choice_or_a_reference_nothing_is_claimed() -> None:
    assert score_localisation([run()], {"one": REFERENCE}) == {}
    assert score_localisation([run((place(4, 4),))], {}) == {}
    assert render_localisation({}) == []
