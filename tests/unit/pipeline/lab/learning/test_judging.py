"""What a reward model gains is measured in pairs, and said only where it is beyond chance."""

import random

from pipeline.lab.learning.filtering import CandidateRow, HeldOut
from pipeline.lab.learning.judging import (
    Level,
    judge,
    list_score_requests,
    render_gains,
    score_key,
)
from pipeline.lab.learning.records import SolvedIssue
from pipeline.selection.ties import render_verdict
from sandbox.frozen import replace
from tests.support.data.diffs import diff_of


def judged() -> HeldOut:
    """Forty issues of two repositories, each with four edits, of which one is right."""
    draw, found = random.Random(1), HeldOut()
    for number in range(40):
        name, repository = f"i{number}", f"a/r{number % 2}"
        found.issues.append(
            SolvedIssue(
                id=name, repository=repository, title="Sum", body="It subtracts.",
                reference=diff_of("a\n", "b\n"), source="pulls",
            )
        )  # fmt: skip
        right = draw.randrange(4)
        found.candidates += [
            CandidateRow(
                issue=name, repository=repository, split="test", source=str(one),
                diff=diff_of("a\n", f"b{number}x{one}\n"), right=one == right, files=True,
                places=one == right, verdict=one == right,
            )
            for one in range(4)
        ]  # fmt: skip
    return found


def test_a_model_that_knows_gains_and_one_that_guesses_does_not() -> None:
    data, draw = judged(), random.Random(2)
    knowing = {score_key("edits", row): float(bool(row.right)) for row in data.candidates}
    (gain,) = judge(data, knowing, ["edits"])
    assert (gain.model, gain.pairs, gain.random) == (100, 100, 25)
    assert gain.is_measured
    guessing = {score_key("edits", row): draw.random() for row in data.candidates}
    (none,) = judge(data, guessing, ["edits"])
    assert not none.is_measured
    assert "no gain measured" in render_gains([none], "the ORM")


def test_the_questions_are_those_that_are_served() -> None:
    data = judged()
    outcome = list_score_requests(data, "orm", ["edits"])
    assert len(outcome) == len(data.candidates)
    assert outcome[0]["answer"] == data.candidates[0].diff
    some: list[list[Level]] = [["files", "places"], ["files", "places", "edits"]]
    for levels in some:
        process = list_score_requests(data, "prm", levels)
        assert [str(one["key"]) for one in process] == [
            score_key(level, row) for row in data.candidates for level in levels
        ]
    own = replace(data.candidates[0], verdict=None)
    assert not list_score_requests(HeldOut(data.issues, [own]), "prm", ["edits"])
    issue, row = data.issues[0].issue, replace(data.candidates[0], summary="Record: it ran.")
    (asked,) = list_score_requests(HeldOut(data.issues, [row]), "prm", ["edits"])
    assert asked["prompt"] == [
        {"role": role, "content": text}
        for role, text in zip(
            ("system", "user"), render_verdict(issue, row.diff, row.summary), strict=True
        )
    ]


def test_the_confidence_reads_the_unedited_files_as_in_a_run() -> None:
    """Only with the file is it known that three of five edits are one: the rest is a docstring."""
    before = 'def f():\n    """\n    One.\n    Two.\n    """\n    a = 1\n    return a\n'
    wrong, right = before.replace("return a", "return 3"), before.replace("return a", "return 2")
    texts = [wrong, wrong, *(right.replace("Two.", text) for text in ("It is.", "Other.", "No."))]
    issue = SolvedIssue(
        id="i", repository="a/r", title="Sum", body="It subtracts.", source="pulls",
        reference=diff_of(before, right, "m.py"),
    )  # fmt: skip
    rows = [
        CandidateRow(
            issue="i", repository="a/r", split="test", source=str(number), files=True, places=True,
            diff=diff_of(before, text, "m.py", context=0), right=number > 1,
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip
    data, scores = HeldOut([issue], rows), {score_key("edits", row): 0.0 for row in rows}
    (blind,) = judge(data, scores, ["edits"])
    (seeing,) = judge(data, scores, ["edits"], {"i": {"m.py": before}})
    assert (blind.confidence, seeing.confidence) == (0, 100)
