from __future__ import annotations

from bot.cli.terminal import render_progress_bar


def test_a_sentence_that_counts_is_drawn_as_a_bar() -> None:
    drawn = render_progress_bar("The scout has read 700 of 1,400 files.")
    assert drawn is not None
    assert drawn == ("[############............]", False, True)
    assert render_progress_bar("Preparing the environment.") is None


def test_a_log_gets_each_tenth_and_the_end() -> None:
    told = [render_progress_bar(f"The scout has read {n} of 300 files.") for n in range(0, 301, 3)]
    assert sum(drawn.at_tenth for drawn in told if drawn) == 11
    assert render_progress_bar("The scout has read 0 of 0 files.") == (
        "[" + "." * 24 + "]",
        True,
        True,
    )
