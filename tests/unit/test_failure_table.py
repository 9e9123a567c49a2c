"""The table of what goes wrong, and the test of each row; a test that is renamed is missed here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

ROWS: Final[Mapping[str, tuple[str, str]]] = {
    "two events for one issue": (
        "e2e/sequences/test_sequences.py",
        "test_nothing_is_done_twice_and_nothing_is_forgotten",
    ),
    "webhook redelivered": (
        "e2e/colleague/test_missed.py",
        "test_a_webhook_after_the_end_of_the_run_that_the_sweep_began_is_answered",
    ),
    "bad signature": ("e2e/intake/test_webhook.py", "test_a_wrong_signature_is_401"),
    "comment by a stranger": ("e2e/colleague/test_stop.py", "test_a_stranger_stops_nothing"),
    "config file invalid": (
        "e2e/publishing/test_outcomes.py",
        "test_an_invalid_configuration_is_told_with_its_line",
    ),
    "worker killed at each stage": (
        "e2e/test_worker_killed.py",
        "test_a_killed_worker_is_replaced_and_one_call_of_a_sample_is_repeated_at_most",
    ),
    "worker killed at each effect": (
        "e2e/publishing/test_once.py",
        "test_a_worker_that_dies_after_an_effect_is_replaced_without_a_trace",
    ),
    "two workers, one run": (
        "e2e/intake/test_worker.py",
        "test_two_workers_never_have_the_same_run",
    ),
    "token expired mid-run": (
        "e2e/publishing/test_outcomes.py",
        "test_a_token_that_expires_on_the_way_is_renewed",
    ),
    "GitHub away for ten minutes": (
        "e2e/publishing/test_outage.py",
        "test_an_outage_of_ten_minutes",
    ),
    "patch that does not apply": (
        "machines/test_solve.py",
        "test_edits_that_never_apply_are_no_edit",
    ),
    "script that forks": (
        "contracts/sandbox/test_limits.py",
        "test_a_fork_bomb_is_contained_and_the_next_run_is_well",
    ),
    "script that never ends": (
        "contracts/sandbox/test_limits.py",
        "test_a_tree_of_processes_that_ignores_signals_is_killed_in_time",
    ),
    "issue closed while running": (
        "e2e/colleague/test_stop.py",
        "test_a_run_is_stopped_while_it_is_worked_on",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_its_test(row: str) -> None:
    file, name = ROWS[row]
    assert re.search(rf"^(async )?def {name}\(", (TESTS / file).read_text("utf-8"), re.M)
