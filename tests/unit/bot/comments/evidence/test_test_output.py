"""What of a runner's output is shown to people."""

from __future__ import annotations

from bot.comments.evidence.test_output import drop_progress

OUTPUT = """\
tests/test_a.py ...F                                                    [ 80%]
                                                                         [100%]
=================================== FAILURES ===================================
____________________________________ test_d ____________________________________
----------------------------- Captured stdout call -----------------------------
dir/test_it.py .                                                         [100%]
=========================== short test summary info ============================
FAILED tests/test_a.py::test_d
"""


def test_progress_that_a_test_printed_is_evidence() -> None:
    assert drop_progress(OUTPUT) == OUTPUT.split("\n", 2)[2]
