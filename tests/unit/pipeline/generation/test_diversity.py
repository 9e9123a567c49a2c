import pytest

from pipeline.generation.diversity import (
    Direction,
    FinishedSample,
    is_informed,
    samples_agree,
    to_tried_edits,
)
from sandbox.program import Ending, Execution
from tests.support.data.diffs import diff_of


@pytest.mark.parametrize(
    ("share", "samples", "informed"),
    [
        (0.3, 10, [3, 6, 9]),
        (0.3, 4, [3]),
        (0.3, 3, []),
        (0, 10, []),
        (1, 4, [1, 2, 3]),
        (0.5, 4, [1, 3]),
    ],
)
def test_the_share_of_informed_samples_is_spread_evenly(
    share: float, samples: int, informed: list[int]
) -> None:
    assert [n for n in range(samples) if is_informed(n, share)] == informed


def test_finished_edits_are_reported_once_each_with_how_they_fared() -> None:
    passed = Execution(exit_code=0, output="", seconds=1)
    failed = Execution(exit_code=2, output="", seconds=1)
    broken = Execution(exit_code=1, output="", seconds=1)
    stuck = Execution(exit_code=None, output="", seconds=9, ending=Ending.TIMEOUT)
    runs = [("a", passed, 2), ("a", failed, 0), ("b", failed, 0), ("c", broken, 0), ("d", stuck, 0)]
    others = to_tried_edits(
        [FinishedSample(n, *run) for n, run in enumerate([*runs, ("e", None, 0)])]
    )
    assert [(other.sample, other.diff) for other in others] == [
        (0, "a"),
        (2, "b"),
        (3, "c"),
        (4, "d"),
        (5, "e"),
    ]
    assert "passes (exit code 0). Tests" in others[0].how
    assert others[0].how.endswith("breaks: 2.")
    assert "fails (exit code 2)" in others[1].how
    assert "ends without a verdict (exit code 1)" in others[2].how
    assert "did not end" in others[3].how
    assert "not run" in others[4].how


def test_the_same_code_with_other_tests_is_shown_once() -> None:
    code = diff_of("x = 1\n", "x = 2\n", "shop/a.py")
    tests = [diff_of("", f"def test_{n}():\n    pass\n", "tests/test_a.py") for n in range(2)]
    other = diff_of("x = 1\n", "x = 3\n", "shop/a.py")
    diffs = [code + tests[0], code + tests[1], code + tests[0], other, tests[1]]
    others = to_tried_edits([FinishedSample(n, diff, None, 0) for n, diff in enumerate(diffs)])
    assert [one.sample for one in others] == [0, 3, 4]
    assert others[0].how.endswith("1 other sample wrote the same code with other tests.")
    assert others[1].how == "It was not run."


def test_only_so_many_are_shown() -> None:
    assert len(to_tried_edits([FinishedSample(n, f"diff {n}", None, 0) for n in range(30)])) == 6


def test_samples_agree_when_every_edit_fixes_its_script_and_breaks_nothing() -> None:
    passed = Execution(exit_code=0, output="", seconds=1)
    failed = Execution(exit_code=2, output="", seconds=1)
    one, other = FinishedSample(0, "a", passed, 0), FinishedSample(1, "b", passed, 0)
    assert samples_agree([one, other])
    assert not samples_agree([one])
    assert not samples_agree([one, other, FinishedSample(2, "c", failed, 0)])
    assert not samples_agree([one, FinishedSample(1, "b", passed, 1)])


def test_a_sample_that_checks_may_send_an_edit_that_it_was_shown() -> None:
    others = to_tried_edits([FinishedSample(0, "a", None, 0)])
    assert "differs" in Direction(others=others).find_repetition("a")
    assert not Direction(others=others, agree=True).find_repetition("a")
