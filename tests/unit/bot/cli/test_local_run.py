"""How a command ends: its last line, and a signal, which closes what it opened as Ctrl-C does."""

import signal
import subprocess
import sys

import pytest

from bot.cli.local_run import end_sentence
from bot.cli.report import build_report
from bot.data.job import Outcome
from pipeline.data.types import CommitSha, NoFix, Selection
from sandbox.frozen import replace
from tests.support.data.publishing import a_selection
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
WORK: str = TEXTS["WORK"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_what_is_open(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(number)
        assert process.stdout.read() == "closed\n"
        assert process.wait(300) == 128 + number


@pytest.mark.parametrize(
    ("result", "once"), [(NoFix(reason="out of budget"), "budget"), (a_selection(), "fix")]
)
def test_the_last_line_does_not_repeat_itself(result: NoFix | Selection, once: str) -> None:
    report = build_report(Outcome(result, ()), CommitSha("0" * 40))
    if report.title:
        report = replace(report, title="Fix: In shop")
    said = end_sentence(report, "Proven fix", "a minute")
    assert said.casefold().count(once) == 1
