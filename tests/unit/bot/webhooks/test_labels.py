"""The bot's labels: what each of them requests, whatever its case."""

from bot.data.run import Mode
from bot.webhooks.labels import LabelSet, has_label
from sandbox.frozen import replace
from tests.support.data.publishing import a_run

LABELS = LabelSet("Capuchin")


def test_the_opt_out_label_is_found_as_it_is_spelled() -> None:
    assert LABELS.opt_out == "Capuchin:disabled"
    assert LABELS.find_opt_out(["bug", "capuchin:DISABLED"]) == "capuchin:DISABLED"
    assert LABELS.find_opt_out(["bug", "capuchin"]) is None


def test_labels_are_compared_without_case() -> None:
    assert has_label(["Bug"], "bug")
    assert not has_label(["Bug"], "bugs")


def test_a_run_removes_the_label_that_requested_it_or_the_same_one() -> None:
    run = a_run()
    assert LABELS.label_to_remove(replace(run, label="capuchin:AUTO")) == "capuchin:AUTO"
    assert LABELS.label_to_remove(replace(run, mode=Mode.PLAN)) == "Capuchin:dry-run"
    assert LABELS.label_to_remove(replace(run, mode=Mode.JUDGE)) == ""
