"""What `make fuzz` does with its options."""

import pytest

from tests.fuzz.__main__ import NAMES, Options, read_options


def test_without_options_every_target_has_a_minute_and_other_inputs() -> None:
    assert read_options([]) == Options(NAMES, seconds=60, jobs=2, seed=0, quick=False)


def test_quick_takes_a_second_or_500_inputs_which_are_the_same() -> None:
    wanted = Options(NAMES, seconds=1, jobs=2, seed=1, quick=True, runs=500)
    assert read_options(["--quick"]) == wanted


def test_quick_leaves_what_else_is_given() -> None:
    given = read_options(["--quick", "--seconds", "5", "--seed", "7", "--only", "ci,junit"])
    assert given == Options(["ci", "junit"], seconds=5, jobs=2, seed=7, quick=True)


def test_an_unknown_target_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read_options(["--only", "ci,nope"])
    assert "nope is not one of answers, bundle, ci," in capsys.readouterr().err
