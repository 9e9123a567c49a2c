"""When no more samples are drawn."""

import pytest

from pipeline.workflows.sampling import agreeing_candidates, is_enough, waves
from tests.support.data.votes import vote_table

AGREE = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_candidates_that_pass_each_others_tests_are_enough() -> None:
    assert is_enough(vote_table([2, 2, 2], AGREE), {0, 1, 2}, 3)


def test_two_of_three_are_enough_if_two_may_agree_and_two_of_four_are_not() -> None:
    two = vote_table([2, 2, 2], [[0, 0, 2], [0, 0, 2], [2, 2, 0]])
    assert agreeing_candidates(two, {0, 1, 2}) == (0, 1)
    assert is_enough(two, {0, 1, 2}, 3, least=2)
    assert not is_enough(two, {0, 1, 2}, 3)
    assert not is_enough(two, {0, 1, 2}, 4, least=2)


def test_one_alone_agrees_with_nobody() -> None:
    assert not is_enough(vote_table([2], [[0]]), {0}, 1, least=2)


@pytest.mark.parametrize("code", [0, 1])
def test_a_test_that_does_not_report_the_issue_makes_no_agreement(code: int) -> None:
    assert not is_enough(vote_table([code, code, 2], AGREE), {0, 1, 2}, 3)


def test_passing_must_be_mutual() -> None:
    assert agreeing_candidates(vote_table([2, 2], [[0, 0], [2, 0]]), {0, 1}) in [(0,), (1,)]
    assert not is_enough(vote_table([2, 2], [[0, 0], [2, 0]]), {0, 1}, 2, least=2)


def test_a_candidate_that_fails_its_own_test_does_not_count() -> None:
    assert agreeing_candidates(
        vote_table([2, 2, 2], [[2, 0, 0], [0, 0, 0], [0, 0, 0]]), {0, 1, 2}
    ) == (1, 2)


def test_only_independent_samples_count() -> None:
    four = vote_table([2, 2, 2], AGREE, samples=[1, 5, 6])
    assert not is_enough(four, {1}, 3, least=2)
    assert is_enough(four, {1, 5}, 3, least=2)


def test_a_candidate_without_a_test_does_not_count() -> None:
    assert agreeing_candidates(vote_table([2], [[0], [0]]), {0, 1}) == (0,)


def test_nothing_that_passes_is_not_enough() -> None:
    assert not is_enough(vote_table([2, 2], [[2, 2], [2, 2]]), {0, 1}, 2)


def test_waves_cover_every_sample_once() -> None:
    assert list(waves(10, first=4, adaptive=True)) == [range(4), range(4, 8), range(8, 10)]
    assert list(waves(3, first=4, adaptive=True)) == [range(3)]
    assert list(waves(10, first=4, adaptive=False)) == [range(10)]
