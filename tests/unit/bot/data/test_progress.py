"""What a run's events add up to."""

from bot.data.progress import Progress, ProgressTracker, describe, range_of_durations
from pipeline.data.progress import (
    Count,
    Doing,
    EnvironmentFound,
    FilesRead,
    Spent,
    StageBegan,
    SuiteRan,
    Written,
)


def test_counts_follow_from_what_is_written_and_found() -> None:
    told: list[Progress] = []
    tracker = ProgressTracker(told.append)
    for event in (
        StageBegan("context", "Looking."),
        FilesRead(43, 1043),
        Written("script", 0, "written"),
        Written("script", 0, "written"),
        StageBegan("edits", "Writing."),
        StageBegan("context", "Reading what was found."),
        Written("edit", 0, "begun"),
        Written("edit", 0, "written"),
        Written("edit", 1, "begun"),
        Written("edit", 2, "begun"),
        Written("edit", 2, "dropped"),
        Written("script", 1, "dropped"),
        EnvironmentFound("Python 3.8: it works."),
        Spent(0.25, 10),
    ):
        tracker.report(event)
    last = told[-1]
    assert (last.files, last.tests, last.edits, last.edits_begun) == (43, 1, 1, 2)
    assert (last.doing, last.dollars) == ("Reading what was found.", 0.25)
    assert (last.environment, last.counted) == ("Python 3.8: it works.", None)
    assert list(last.stages) == ["environment", "context", "edits"]
    # The next worker goes on with what this one reported.
    again = ProgressTracker(told.append, last)
    for number in (0, 1):
        again.report(Written("script", number, "written"))
        assert (told[-1].files, told[-1].tests, told[-1].stages) == (43, number + 1, last.stages)
    again.report(Written("edit", 1, "begun"))
    assert (told[-1].edits, told[-1].edits_begun) == (1, 2)
    ProgressTracker(told.append, told[-1]).report(Written("script", 0, "written"))
    assert told[-1].tests == 2, "what was counted is not taken back by a worker that begins"


def test_the_tests_of_the_repository_are_counted_once_the_choice_has_begun() -> None:
    told: list[Progress] = []
    tracker = ProgressTracker(told.append)
    tracker.report(SuiteRan("near", 3, is_unedited=False))
    assert told == []
    tracker.report(StageBegan("choice", "Choosing."))
    tracker.report(SuiteRan("base", 3, is_unedited=True))
    for key in ("one", "one", "other"):
        tracker.report(SuiteRan(key, 3, is_unedited=False))
    last = told[-1]
    assert (last.suite_tests, last.suite_run, last.suite_runs) == (3, 6, 2)


def test_files_that_are_read_are_counted_in_words_and_as_numbers() -> None:
    said = describe(FilesRead(43, 1043))
    assert (said.counted, "43 of 1,043" in said.text) == (Count(43, 1043, "files"), True)
    assert describe(Doing("Choosing.")) == Doing("Choosing.")
    assert describe(Spent(1, 10)).text == ""


def test_a_range_is_expected_once_three_runs_have_ended() -> None:
    assert range_of_durations([60, 120]) is None
    assert range_of_durations([60, 120, 240, 300, 6000]) == (120, 300)
