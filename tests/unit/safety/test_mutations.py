"""`make walls` is not part of the suite; these tests check that its table fits the source."""

import ast
import json
import re

import pytest

from tests.safety.mutations import PROTECTIONS, Protection
from tests.safety.run_mutations import ROOT

SAFETY = ROOT / "tests/safety"
WITHOUT_MUTATION = {
    "test_protections_cannot_be_removed_from_inside": "the kernel's own rules prevent it",
    "test_a_diff_cannot_write_gits_own_files_or_outside": "git's own rules prevent it",
    "test_a_diff_cannot_write_through_a_link_of_another": "git's own rules prevent it",
    "test_a_fork_bomb_ends_with_its_time": "the wall clock and the number of processes limit it",
    "test_a_sparse_file_fools_nobody": "shows what the size of a disk counts",
    "test_a_command_has_no_network_and_no_secret": "the walls of scripts, taken down for those",
    "test_a_command_gains_no_right": "the walls of scripts again",
    "test_a_command_has_the_limits_of_a_script": "the walls of scripts again",
    "test_no_command_can_write_the_report_itself": "the walls of scripts again",
    "test_what_runs_on_behind_a_command_cannot_change_what_is_read": "a race: it seldom shows",
    "test_an_archive_that_unpacks_without_end_fills_only_its_own_disk": "the size of a disk again",
}
"""Attacks that no change of one place permits, and why."""


def changed(protection: Protection) -> dict[str, str]:
    """The files of the project, without the protection."""
    files: dict[str, str] = {}
    for name, old, new in protection.changes:
        text = files.get(name) or (ROOT / name).read_text()
        assert old in text, f"{name} has no {old!r} any more"
        files[name] = text.replace(old, new)
    return files


@pytest.mark.parametrize(
    "protection", PROTECTIONS, ids=lambda protection: f"{protection.name}, {protection.mode}"
)
def test_every_protection_is_where_the_table_says(protection: Protection) -> None:
    for name, text in changed(protection).items():
        assert text != (ROOT / name).read_text()
        if name.endswith(".py"):
            ast.parse(text)
        if name.endswith(".json"):
            json.loads(text)
    for test in protection.tests:
        found = re.fullmatch(r"([\w/]+\.py)::(\w+)(?:\[.+\])?", test)
        assert found, test
        file, function = found.groups()
        folder = ROOT if protection.is_elsewhere else SAFETY
        assert f"def {function}(" in (folder / file).read_text(), test


def test_no_two_protections_have_the_same_name() -> None:
    names = [(protection.name, protection.mode) for protection in PROTECTIONS]
    assert sorted(names) == sorted(set(names))


def test_every_attack_notices_a_missing_protection() -> None:
    attacks = {
        name
        for file in SAFETY.glob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    noticed = {
        re.split(r"::|\[", test)[1]
        for protection in PROTECTIONS
        if not protection.is_elsewhere
        for test in protection.tests
    }
    assert attacks - noticed == set(WITHOUT_MUTATION)
