"""How scripts are shown that told the best edits apart."""

from collections.abc import Sequence

from bot.comments.evidence_details import render_further
from bot.comments.pull_request import pull_body
from pipeline.data.suite_reports import FurtherScript
from sandbox.frozen import replace
from sandbox.program import Execution
from tests.support.data.publishing import FAILS, PASSES, a_run, a_selection, proven


def test_a_script_that_the_chosen_edit_fails_is_shown_with_its_output() -> None:
    selection = a_selection()
    votes = selection.evidence.votes
    failed = replace(FAILS, output="spaces: expected False, got True")
    told = replace(votes, runs=(votes.runs[0], (failed, PASSES)))
    shown = pull_body(a_run(), proven(selection, votes=told), ())
    first, _, second = shown.partition("<summary>Script 1: ")[2].partition("<summary>Script 2: ")
    assert failed.output in first
    assert "A fails" in first
    assert "may ask for more" in first
    assert "may ask for more" not in second.partition("</summary>")[0]


def render_two(outputs: Sequence[str]) -> str:
    """A further script with these outputs of two edits."""
    runs = tuple(
        Execution(exit_code=code, output=text, seconds=1)
        for code, text in zip((0, 2), outputs, strict=True)
    )
    script = FurtherScript(text="pass", base=runs[1], candidates=(0, 1), runs=runs)
    return render_further([script], a_selection().evidence.votes, (0, 1), 5000)


def test_of_long_outputs_the_lines_that_differ_are_shown() -> None:
    """The very line on which the choice rested was left out of the middle."""
    same = [f"case {number}: right" for number in range(200)]
    outputs = ["\n".join([*same[:100], line, *same[100:]]) for line in ("x | None", "| None WRONG")]
    shown = render_two(outputs)
    assert "[... 100 lines that both print ...]\nx | None\n[... 100 lines" in shown
    assert "\n| None WRONG\n" in shown
    assert "case 3" not in shown


def test_lines_that_one_output_repeats_are_not_called_lines_that_both_print() -> None:
    same = [f"case {number}: right" for number in range(200)]
    outputs = ["\n".join([*same, *more]) for more in ([*same[:3], "x"], ["y"])]
    shown = render_two(outputs)
    assert shown.count("[... 200 lines that both print ...]") == 2
    assert "case 0: right\ncase 1: right\ncase 2: right\nx\n" in shown
