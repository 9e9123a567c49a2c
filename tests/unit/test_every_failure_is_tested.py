"""The table of what goes wrong, and the test of each row; a test that is renamed is missed here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

E2E: Final = Path(__file__).parents[1] / "e2e"

ROWS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "webhook redelivered": (
        ("solve/test_bad_input.py", "test_the_same_label_delivered_twice_makes_one_run"),
        (
            "followup/test_missed_webhooks.py",
            "test_a_webhook_after_the_end_of_the_run_that_the_sweep_began_is_answered",
        ),
    ),
    "bad signature": (("webhook/test_webhook.py", "test_a_wrong_signature_is_401"),),
    "comment by a stranger": (
        ("commands/test_stop.py", "test_a_stranger_stops_nothing"),
        ("commands/test_trust_and_quota.py", "test_strangers_words_are_left_out_and_counted"),
    ),
    "config file invalid": (
        ("publishing/test_outcomes.py", "test_an_invalid_configuration_is_reported_with_its_line"),
    ),
    "two events for one issue": (
        (
            "sequences/test_sequences.py",
            "test_nothing_is_done_twice_and_nothing_is_forgotten",
        ),
    ),
    "worker killed at each stage": (
        (
            "failures/test_worker_process.py",
            "test_a_killed_worker_is_replaced_and_one_call_of_a_sample_is_repeated_at_most",
        ),
        (
            "publishing/test_crash_safety.py",
            "test_a_worker_that_dies_after_an_effect_is_replaced_without_a_trace",
        ),
        (
            "failures/test_worker_process.py",
            "test_a_worker_that_dies_while_it_asks_back_is_replaced_without_a_trace",
        ),
    ),
    "two workers, one run": (
        ("worker/test_worker.py", "test_two_workers_never_have_the_same_run"),
    ),
    "GitHub 502 after creating the PR": (
        ("failures/test_outages.py", "test_a_502_after_the_pull_request_was_created"),
        ("publishing/test_crash_safety.py", "test_a_lost_answer_makes_nothing_twice"),
    ),
    "token expired mid-run": (
        ("failures/test_worker_process.py", "test_a_token_that_expires_on_the_way_is_renewed"),
    ),
    "model 529 for ten minutes": (
        ("failures/test_model.py", "test_a_model_that_is_overloaded_for_ten_minutes"),
    ),
    "context too long at the third turn": (
        ("failures/test_model.py", "test_a_context_too_long_at_the_third_turn"),
    ),
    "ten malformed replies": (("failures/test_model.py", "test_eight_malformed_replies"),),
    "patch that does not apply": (
        ("failures/test_model.py", "test_a_patch_that_does_not_apply"),
        ("solve/test_bad_input.py", "test_an_edit_that_leaves_the_repository"),
    ),
    "script that never ends": (("failures/test_harmful_scripts.py", "test_scripts_that_do_harm"),),
    "script that forks": (("failures/test_harmful_scripts.py", "test_scripts_that_do_harm"),),
    "script that fills the disk": (
        ("failures/test_harmful_scripts.py", "test_scripts_that_do_harm"),
    ),
    "script that prints 1 GB": (("failures/test_harmful_scripts.py", "test_scripts_that_do_harm"),),
    "script that prints invalid UTF-8": (
        ("failures/test_harmful_scripts.py", "test_scripts_that_do_harm"),
    ),
    "docker daemon restarted": (
        ("failures/test_docker.py", "test_docker_restarted_in_the_middle_of_a_run"),
    ),
    "issue closed while running": (
        ("failures/test_worker_process.py", "test_a_stop_ends_calls_and_executions_within_seconds"),
        ("commands/test_stop.py", "test_a_run_is_stopped_while_it_is_worked_on"),
    ),
    "deploy (SIGTERM)": (
        (
            "failures/test_worker_process.py",
            "test_a_worker_told_to_go_loses_nothing_and_the_next_repeats_nothing",
        ),
    ),
    # Beyond the table.
    "GitHub away for ten minutes": (
        ("failures/test_outages.py", "test_an_outage_of_ten_minutes"),
        ("failures/test_outages.py", "test_a_rate_limit_of_ten_minutes"),
    ),
    "GitHub 5xx on who may": (
        (
            "failures/test_outages.py",
            "test_a_github_that_cannot_say_who_may_lets_nobody_in_and_nothing_is_lost",
        ),
        (
            "failures/test_outages.py",
            "test_a_command_waits_for_a_github_that_can_say_who_may",
        ),
    ),
    "Redis refuses writes mid-run": (
        ("failures/test_outages.py", "test_a_redis_that_takes_no_writes_in_mid_run"),
    ),
    "text edited after a trigger that only the sweep found": (
        (
            "followup/test_missed_webhooks.py",
            "test_what_was_changed_after_a_label_that_the_sweep_found_is_not_read",
        ),
    ),
}
"""Each through the front door: below `tests/e2e`."""
PLACES: Final = [(row, *place) for row, places in ROWS.items() for place in places]


@pytest.mark.parametrize(("row", "file", "name"), PLACES)
def test_each_row_has_its_tests(row: str, file: str, name: str) -> None:
    text = (E2E / file).read_text("utf-8")
    assert re.search(rf"^(async )?def {name}\(", text, re.M), row
