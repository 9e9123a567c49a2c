"""`make walls` is no part of the suite; that its table still fits the source is held here."""

from __future__ import annotations

import ast
import json
import re

import pytest

from tests.safety.mutation import Wall
from tests.safety.mutations import WALLS
from tests.safety.run_mutations import ROOT

SAFETY = ROOT / "tests/safety"
UNWALLED = {
    "test_walls_cannot_be_taken_down_from_inside": "the kernel's own rules hold it",
    "test_a_diff_cannot_write_gits_own_files_or_outside": "git's own rules hold it",
    "test_a_diff_cannot_write_through_a_link_of_another": "git's own rules hold it",
    "test_a_fork_bomb_ends_with_its_time": "walls of the wall clock and of the number of processes",
    "test_a_sparse_file_fools_nobody": "shows what the size of a disk counts",
    "test_an_archive_that_unpacks_without_end_fills_only_its_own_disk": "the size of a disk again",
}
"""Attacks that no change of one place lets through, and why."""


def changed(wall: Wall) -> dict[str, str]:
    """The files of the project, with the wall taken down."""
    files: dict[str, str] = {}
    for name, old, new in wall.changes:
        text = files.get(name) or (ROOT / name).read_text()
        assert old in text, f"{name} has no {old!r} any more"
        files[name] = text.replace(old, new)
    return files


@pytest.mark.parametrize("wall", WALLS, ids=lambda wall: f"{wall.name}, {wall.mode}")
def test_every_wall_stands_where_the_table_says(wall: Wall) -> None:
    for name, text in changed(wall).items():
        assert text != (ROOT / name).read_text()
        if name.endswith(".py"):
            ast.parse(text)
        if name.endswith(".json"):
            json.loads(text)
    for test in wall.tests:
        found = re.fullmatch(r"(\w+\.py)::(\w+)(?:\[.+\])?", test)
        assert found, test
        file, function = found.groups()
        assert f"def {function}(" in (SAFETY / file).read_text(), test


def test_no_two_walls_are_called_the_same() -> None:
    names = [(wall.name, wall.mode) for wall in WALLS]
    assert sorted(names) == sorted(set(names))


def test_every_attack_has_a_wall_that_it_notices() -> None:
    attacks = {
        name
        for file in SAFETY.glob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    noticed = {re.split(r"::|\[", test)[1] for wall in WALLS for test in wall.tests}
    assert attacks - noticed == set(UNWALLED)
