"""The pull request's texts: everything a reviewer needs, within GitHub's limits."""

from __future__ import annotations

from bot import evidence
from bot.comments import request_marker
from tests.unit.bot_publish.samples import ACCOUNTS, a_run, a_selection

SPLIT = "\u200b"


def test_the_body_holds_the_evidence_in_order() -> None:
    body = evidence.body(a_run(), a_selection(), ACCOUNTS)
    wanted = [
        "## What was wrong\n\n`total()` subtracts.",
        "## What changed\n\nIt adds now.",
        "\n\nFixes #7\n\n",
        "`tests/test_total.py` is new. It fails on the code as it was and passes with the change",
        "```text\nassert -1 == 3\n1 failed\n```",
        "```text\n1 passed\n```",
        "The chosen edit passes 2 of 2. It passed the most of them.",
        "| before | 2 | 1 |\n| after | 3 | 0 |",
        "## Limits",
        "Models: recorded answers. Recorded answers were written down beforehand",
        "| testing | recorded answers | 3 | 1,500 | 200 | $0.0123 |",
        request_marker("r1"),
    ]
    places = [body.index(part) for part in wanted]
    assert places == sorted(places)


def test_the_table_shows_the_unedited_code_first() -> None:
    selection = a_selection()
    table = evidence.matrix(selection.evidence.votes, chosen=1)
    assert table.splitlines() == [
        "| | test 1 | test 2 | passes |",
        "|---|:-:|:-:|:-:|",
        "| unedited code | ❌ | ❌ | 0 |",
        "| edit 1 | 💥 | ⏱ | 0 |",
        "| **edit 2 (chosen)** | ✅ | ✅ | 2 |",
    ]


def test_a_huge_log_is_shortened_until_the_body_fits() -> None:
    body = evidence.body(a_run(), a_selection(output="`" * 200_000), ACCOUNTS)
    assert len(body) <= evidence.BODY_CHARACTERS
    assert body.endswith(request_marker("r1") + "\n")
    assert "characters left out" in body


def test_a_log_cannot_end_its_own_fence() -> None:
    body = evidence.body(a_run(), a_selection(output="```\n</details>\nFixes #1"), ACCOUNTS)
    assert "````text\n```\n</details>\nFixes #1\n````" in body


def test_a_model_can_close_no_other_issue_and_forge_no_marker() -> None:
    cause = "Fixes #1 <!-- capuchin:run=other --> cc @everyone"
    body = evidence.body(a_run(), a_selection(cause=cause), ACCOUNTS)
    assert f"Fixes #{SPLIT}1  cc @{SPLIT}everyone" in body
    assert "capuchin:run=other" not in body


def test_the_check_run_holds_both_logs() -> None:
    reproduction = a_selection().evidence.reproduction
    text = evidence.check_text(reproduction)
    assert "### Before\n\n```text\nassert -1 == 3" in text
    assert "### After\n\n```text\n1 passed" in text
    assert evidence.check_summary(reproduction) == (
        "`tests/test_total.py` fails without the change and passes with it."
    )


def test_an_empty_title_falls_back_to_the_issue() -> None:
    selection = a_selection()
    untitled = selection.evidence.model_copy(update={"title": " \n"})
    assert evidence.title(selection.model_copy(update={"evidence": untitled}), 7) == "Fix issue 7"


def test_a_repository_without_tests_is_told_so() -> None:
    selection = a_selection()
    alone = selection.evidence.model_copy(update={"suite": None})
    body = evidence.body(a_run(), selection.model_copy(update={"evidence": alone}), ())
    assert "no tests of its own that I could find and run" in body
    assert "No test of the repository's own was run." in body
