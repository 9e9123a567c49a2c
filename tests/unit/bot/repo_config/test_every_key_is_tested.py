"""Each key of the settings file has a test that shows it acts: here is which."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from bot.repo_config.model import EffectiveConfig, RepoConfig, list_settings

TESTS: Final = Path(__file__).parents[3]
OUTCOMES: Final = "e2e/publishing/test_outcomes.py::"
WAVES: Final = "machines/test_sample_waves.py::"
LIMITS: Final = "machines/test_limits.py::"
MODELS: Final = "unit/bot/runner/test_models.py::"
CONTEXT: Final = "unit/pipeline/context/"
CHOOSING: Final = "machines/test_selection_methods.py::"
BUILDS: Final = "contracts/sandbox/test_build_isolation.py::"
WHO: Final = "e2e/commands/test_trust_and_quota.py::"
CONVENTIONS: Final = "e2e/publishing/test_repository_conventions.py::"
DAY_BUDGET: Final = "unit/bot/storage/test_day_budget.py::"
PYTHON: Final = "unit/pipeline/languages/python/test_interpreter.py::"
CARE: Final = "e2e/followup/test_open_pulls.py::"
MAKE: Final = (
    "e2e/solve/test_other_languages.py::test_a_makefile_project_goes_from_label_to_pull_request"
)
ACTS: Final[Mapping[str, str]] = {
    "version": "unit/bot/repo_config/test_model.py::test_a_mistake_is_reported_with_its_place",
    "enabled": OUTCOMES + "test_a_repository_can_switch_us_off",
    "trust": WHO + "test_trust_says_who_may_command",
    "draft": CARE + "test_a_draft_stays_what_the_repository_says",
    "publish": "e2e/publishing/test_approval.py::"
    "test_an_edit_waits_for_a_trusted_persons_word_and_is_then_published",
    "labels": CONVENTIONS + "test_labels_of_the_configuration_are_put_on",
    "base_branch": CONVENTIONS + "test_base_and_names_of_branches_are_the_repositorys",
    "branch_prefix": CONVENTIONS + "test_base_and_names_of_branches_are_the_repositorys",
    "commits": CONVENTIONS + "test_the_settings_say_what_commits_carry",
    "follow_up": "e2e/followup/test_reviews.py::"
    "test_reviews_are_left_to_people_where_the_repository_says_so",
    "answer_ci": "e2e/followup/test_red_ci.py::",
    "samples": "machines/test_solve.py::"
    "test_four_samples_end_in_the_edit_that_the_selection_machine_chose",
    "generators": "e2e/solve/test_ways_of_solving.py::"
    "test_an_explorer_and_a_fixed_machine_of_another_model_work_on_one_issue",
    "strategy": "e2e/cli/test_fix.py::"
    "test_the_repository_asks_for_a_search_and_the_command_line_overrides_it",
    "minutes": "machines/test_limits.py::"
    "test_when_the_time_is_over_the_chosen_edit_is_still_delivered",
    "thinking_tokens": MODELS + "test_only_the_solver_is_asked_to_think",
    "exclude": CONTEXT + "files/test_sources.py::test_excluded_files_are_reported",
    "confidence": "e2e/solve/test_ways_of_solving.py::"
    "test_below_the_threshold_no_pull_request_is_opened_but_what_was_learnt_is_reported",
    "unproven": "machines/test_reproduction_ladder.py::test_a_repository_may_want_nothing_unproven",
    "budget.run": "machines/test_limits.py::"
    "test_one_that_is_not_good_enough_is_an_honest_no_that_a_higher_ceiling_continues",
    "budget.day": DAY_BUDGET + "test_runs_of_one_repository_share_its_ceiling",
    "dockerfile": BUILDS + "test_a_dockerfile_makes_what_the_repository_is_installed_in",
    "python": PYTHON + "test_the_maintainers_word_goes_before_all",
    "setup": "contracts/sandbox/test_environment.py::"
    "test_setup_lines_replace_detection_and_progress_is_reported",
    "test": "machines/test_solve.py::"
    "test_a_test_command_that_names_no_test_still_shows_which_passed",
    "root": MAKE,
    "language": "unit/pipeline/languages/test_described.py::"
    "test_the_maintainers_say_which_language_is_tested",
    "build": MAKE,
    "env": MAKE,
    "never_touch": "unit/pipeline/edits/test_read.py::test_a_hostile_path_is_refused",
}


@pytest.mark.parametrize(
    "key", [one.key for one in list_settings(EffectiveConfig(RepoConfig(), {}))]
)
def test_a_key_has_a_test_that_shows_it_acts(key: str) -> None:
    file, _, name = ACTS[key].partition("::")
    assert f"def {name}" in (TESTS / file).read_text(encoding="utf-8")
