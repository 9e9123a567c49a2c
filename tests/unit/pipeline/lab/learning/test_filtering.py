"""Splits without leaks, pairs, and the way from public predictions to rows."""

import json
from pathlib import Path

import polars as pl
import pytest

from pipeline.lab.dataset import read_lines
from pipeline.lab.learning.filtering import (
    check_attempt,
    count_leaks,
    read_held_out,
    read_warning,
    render_filter_report,
)
from pipeline.lab.learning.interpreter import Training, write_training_report
from pipeline.lab.learning.records import (
    Attempt,
    LearningData,
    ReplyRow,
    SolvedIssue,
    open_data,
    write_rows,
)
from pipeline.lab.learning.training_rows import NEVER, hits_places, outcome_rows, split_issues
from pipeline.models.base import Message
from pipeline.selection.ties import render_verdict
from sandbox.frozen import replace
from tests.support.command_line import done, refused
from tests.support.data.diffs import diff_of
from tests.support.data.learning_rows import filtered, read_all_rows

BEFORE = "".join(f"line {n} of the module\n" for n in range(40))


def edit(line: int, text: str, path: str = "shop/a.py") -> str:
    return diff_of(BEFORE, BEFORE.replace(f"line {line} of the module\n", text), path)


def solved(number: int, repository: str, **changes: object) -> SolvedIssue:
    return SolvedIssue.model_validate(
        {
            "id": f"{repository.replace('/', '__')}-{number}",
            "repository": repository,
            "title": f"Problem {number} of {repository}",
            "body": f"It fails at step {number} with the message {repository * 3}.",
            "closed": f"2024-{number:02}-01T00:00:00Z",
            "reference": edit(number, f"return {repository} {number} + 1 or else\n"),
            "source": "pulls",
            **changes,
        }
    )


ISSUES = [solved(n, f"owner{r}/repo{r}") for r in range(10) for n in (2, 5, 9)]


def attempts(issue: SolvedIssue) -> list[Attempt]:
    wrong = edit(30, f"raise {issue.id} to the caller at once, or to nobody\n")
    return [
        Attempt(issue=issue.id, source="a", diff=issue.reference, resolved=True),
        Attempt(issue=issue.id, source="b", diff=wrong, resolved=False),
    ]


ATTEMPTS = [attempt for issue in ISSUES for attempt in attempts(issue)]


def test_a_place_is_hit_near_it_or_in_its_definition() -> None:
    reference = edit(20, "b\n")
    assert hits_places(edit(22, "other\n"), reference)
    assert not hits_places(edit(35, "other\n"), reference)
    assert not hits_places(edit(20, "b\n", "shop/b.py"), reference)
    named = diff_of("".join(f"x{n}\n" for n in range(9)), "".join(f"x{n}\n" for n in range(8)))
    headed = named.replace(" @@", " @@ def total():", 1)
    far = headed.replace("@@ -", "@@ -9", 1)
    assert hits_places(far, headed)


def test_repositories_and_times_are_kept_apart() -> None:
    split = split_issues(ISSUES)
    sides = {one.repository: set[str]() for one in ISSUES}
    for one in ISSUES:
        if one.id in split.sides:
            sides[one.repository].add(split.sides[one.id])
            later = one.closed >= split.until
            assert later == (split.sides[one.id] == "test")
    assert sorted("".join(sorted(side)) for side in sides.values()) == ["test"] * 2 + ["train"] * 8
    fork = split_issues(
        [*ISSUES, *(replace(i, id=f"f{i.id}", repository="me/Repo3") for i in ISSUES[9:12])]
    )
    assert fork.sides.get("fowner3__repo3-2") == fork.sides.get("owner3__repo3-2")


def test_one_repository_is_split_by_time_and_says_what_that_shows(tmp_path: Path) -> None:
    issues = [solved(n, "acme/shop") for n in range(1, 11)]
    with open_data(tmp_path / "data") as data:
        data.add(LearningData(tuple(issues), tuple(a for i in issues for a in attempts(i))))
    words = ("learn", "filter", str(tmp_path / "data"), "--out")
    said = done(*words, str(tmp_path / "rows")).out
    assert "leakage: 0" in said
    assert "split by time alone" in said
    sides = {row.issue: row.split for row in read_all_rows(tmp_path / "rows").candidates}
    assert [name for name, side in sides.items() if side == "test"] == [
        "acme__shop-9",
        "acme__shop-10",
    ]
    assert read_held_out(tmp_path / "rows").issues, "`judge` has something to judge"
    easy = ("--easy", str(tmp_path / "rows/solved.json"))
    assert "not trained on 10 easy issues" in done(*words, str(tmp_path / "hard"), *easy).out


def test_near_duplicates_leave_training_and_no_leak_is_left(tmp_path: Path) -> None:
    found, report = filtered(tmp_path, ISSUES, ATTEMPTS)
    assert report.leaks == 0
    test = next(row for row in found.candidates if row.split == "test" and row.right)
    train = next(row for row in found.candidates if row.split == "train")
    copied = [
        replace(one, reference=test.diff.replace("or else", "or then")) if one.id == train.issue
        else one
        for one in ISSUES
    ]  # fmt: skip
    leaked, again = filtered(tmp_path, copied, ATTEMPTS)
    assert again.leaks == 0
    assert again.left_out["near duplicate of a test issue or edit"] == 1
    row = next(row for row in leaked.candidates if row.split == "train")
    write_rows(tmp_path / "candidates.jsonl", [*leaked.candidates, replace(row, diff=test.diff)])
    assert count_leaks(tmp_path) == 1


def test_pairs_are_near_in_length_and_use_each_edit_once() -> None:
    rows = outcome_rows(ISSUES[0], "train", ["r" * 10, "r" * 100], ["w" * 90, "w" * 12, "w" * 500])
    pairs = [(len(row.chosen[0].content), len(row.rejected[0].content)) for row in rows]
    assert pairs == [(10, 12), (100, 90)]


@pytest.mark.parametrize("script", ["", "raise SystemExit"])
def test_an_edit_without_evidence_is_neither_right_nor_wrong(script: str, tmp_path: Path) -> None:
    like, unlike = ISSUES[0].reference, edit(30, "raise the price at once, or tell nobody\n")
    invalid = bool(script) or None
    for diff, patch in ((like, True), (unlike, None)):
        attempt = Attempt(
            issue=ISSUES[0].id, source="a", diff=diff, script=script,
            red_before=invalid, green_on_reference=False if script else None,
        )  # fmt: skip
        checks = check_attempt(ISSUES[0], attempt)
        assert (checks.patch, checks.right) == (patch, None)
    found, _ = filtered(tmp_path, [ISSUES[0]], [attempt])
    assert found.outcome == []


def test_public_predictions_become_rows_by_the_command(tmp_path: Path) -> None:
    rows = [
        {"instance_id": i.id, "repo": i.repository, "base_commit": "a" * 40, "patch": i.reference,
         "problem_statement": f"{i.title}\n{i.body}", "created_at": i.closed}
        for i in ISSUES
    ]  # fmt: skip
    (tmp_path / "instances.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "predictions").mkdir()
    for member in "ab":
        lines = [
            {"instance_id": a.issue, "model_patch": a.diff} for a in ATTEMPTS if a.source == member
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"predictions/{member}.jsonl").write_text(text)
    labels = {"a": [issue.id for issue in ISSUES], "b": []}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    folder, out = str(tmp_path / "data"), tmp_path / "rows"
    bare = str(tmp_path / "unlabelled")
    words = ["--instances", str(tmp_path / "instances.jsonl"), "--predictions"]
    done("learn", "collect", bare, *words, str(tmp_path / "predictions"))
    unlabelled = list(read_lines(tmp_path / "unlabelled/attempts.jsonl", Attempt))
    assert {(a.issue, a.source, a.diff) for a in unlabelled} == {
        (a.issue, a.source, a.diff) for a in ATTEMPTS
    }
    assert {a.resolved for a in unlabelled} == {None}
    words = ["--instances", "instances.jsonl", "--predictions", "predictions", "--labels"]
    words = [str(tmp_path / word) if "--" not in word else word for word in [*words, "labels.json"]]
    done("learn", "collect", folder, *words)
    assert "leakage: 0" in done("learn", "filter", folder, "--out", str(out)).out
    found = read_all_rows(out)
    assert {row.completion[0].content for row in found.process} == {"+", "-"}
    assert all("owner" in row.chosen[0].content for row in found.outcome)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    words = ["learn", "train", "orm", str(out), "--base", str(model), "--out", str(tmp_path / "o")]
    assert "has no torch, trl" in refused(*words)


def test_repositories_alone_part_them_where_that_is_asked() -> None:
    split = split_issues(ISSUES, NEVER)
    assert split.sides.keys() == {one.id for one in ISSUES}
    assert not split.left_out
    by_repository = {one.repository: split.sides[one.id] for one in ISSUES}
    assert all(by_repository[one.repository] == split.sides[one.id] for one in ISSUES)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("way", [(), ("--predictions", "predictions")])
@pytest.mark.parametrize(
    ("repository", "path"), [("orf/django", "shop/a.py"), ("me/web", "django/db/models/base.py")]
)
def test_data_of_a_benchmarks_repository_or_fork_say_so_by_every_way_in(
    form: str, way: tuple[str, ...], repository: str, path: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    forked = replace(ISSUES[0], repository=repository, reference=edit(3, "fixed\n", path))
    rows = [
        {"instance_id": i.id, "repo": i.repository, "base_commit": "a" * 40, "patch": i.reference,
         "problem_statement": f"{i.title}\n{i.body}", "created_at": i.closed}
        for i in (forked, *ISSUES[3:])
    ]  # fmt: skip
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path("instances.jsonl").write_text(lines)
    pl.DataFrame(rows).write_parquet("instances.parquet")
    Path("predictions").mkdir()
    Path("predictions/a.jsonl").write_text(
        json.dumps({"instance_id": forked.id, "model_patch": forked.reference}) + "\n"
    )
    done("learn", "collect", "data", "--instances", f"instances.{form}", *way)
    reply = ReplyRow(stage="files", system="s", messages=(), answer="a")
    with open_data(Path("data")) as data:
        data.add(LearningData((), (Attempt(issue=forked.id, source="run", diff=forked.reference,
                                           replies=(reply,)),)))  # fmt: skip
    filtering = done("learn", "filter", "data", "--out", "rows", "--set", "until=never")
    said = f"cannot measure what is trained on them: {repository} (1)"
    assert said in filtering.out
    done("learn", "publish", "rows", "--out", "published")
    assert said in Path("published/README.md").read_text()
    card = Path("trained/adapter/README.md")
    card.parent.mkdir(parents=True)
    card.write_text("# Of PEFT\n")
    training = Training(
        kind="policy", base="b", rows=1, max_tokens=9, stages={"files": (1, 0, 0)}, tokens=1,
        padding=0, steps=1, resumed_from=0, seconds=1, device="cpu", processes=1,
        learning_rate=1, losses=((1, 0.5),), validation=(), libraries={},
    )  # fmt: skip
    for _ in range(2):
        write_training_report(Path("trained"), training, read_warning(Path("rows")))
    assert card.read_text().count(said) == 1


def conversation(number: int) -> Attempt:
    """An accepted attempt of three replies, of which the second is malformed and not among them."""
    messages = [Message(role="user", text=f"Mend {number}.")]
    said = ("<edit>1</edit>", "It is red.", "no block", "Write a block.", "<approve/>")
    replies: list[ReplyRow] = []
    for at, text in enumerate(said):
        if at in (0, 4):
            replies.append(
                ReplyRow(stage="edit", system="s", messages=tuple(messages), answer=text,
                         thinking="Hm." * (number % 2))
            )  # fmt: skip
        messages.append(Message(role="user" if at % 2 else "assistant", text=text))
    return Attempt(
        issue=ISSUES[0].id, source=f"run {number}", diff=ISSUES[0].reference,
        replies=tuple(replies), script="x", red_before=True, green_on_reference=True, resolved=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("set_", "rows", "masked"),
    [
        ((), 6, {(), (2,)}),
        (("accepted=1",), 1, {(2,)}),
        (("thoughts=false",), 4, {(2,)}),
        (("rejection=false", "accepted=9"), 8, {(), (2,)}),
    ],
)
def test_what_trains_the_policy_is_set_by_the_command(
    set_: tuple[str, ...], rows: int, masked: set[tuple[int, ...]], tmp_path: Path
) -> None:
    """A conversation without thoughts is a row; a reply with one is a row of its own."""
    tried = [*(conversation(n) for n in range(5)), replace(conversation(6), resolved=False)]
    with open_data(tmp_path / "data") as data:
        data.add(LearningData(tuple(ISSUES[:1]), tuple(tried)))
    words = ["learn", "filter", str(tmp_path / "data"), "--out", str(tmp_path / "rows")]
    given = [word for one in ("until=never", *set_) for word in ("--set", one)]
    said = done(*words, *given).out
    policy = read_all_rows(tmp_path / "rows").policy
    assert (len(policy), {row.masked for row in policy}) == (rows, masked)
    assert all(f"set: {one.partition('=')[0]}=" in said for one in set_)
    for wrong in ("accepted=0", "thoughts=perhaps", "nothing=1"):
        assert wrong.partition("=")[0] in refused(*words, "--set", wrong)


def test_a_verifier_learns_each_edit_with_its_record_by_labels_that_are_not_its_own(
    tmp_path: Path,
) -> None:
    """Not by the attempt's script, which its record tells, nor where labels of one edit differ."""
    edits = [edit(n, f"return {n} or raise the price of it\n") for n in range(5)]
    told = (True, False, None, None, True)
    own = {"script": "x", "red_before": True, "green_on_reference": True, "passes_script": True}
    tried = [
        Attempt.model_validate(
            {"issue": ISSUES[0].id, "source": f"run {n}", "diff": diff, "resolved": label,
             "summary": f"Record: {n}", "broken": (), **own}
        )
        for n, (diff, label) in enumerate(zip(edits, told, strict=True))
    ]  # fmt: skip
    tried[3] = replace(tried[3], resolved=True, outcome="changed")
    again = [replace(tried[0], source="b", resolved=None, summary="other"),
             replace(tried[4], source="b", resolved=False)]  # fmt: skip
    found, report = filtered(tmp_path, ISSUES[:1], [*tried, *again], until=NEVER)
    rows = [row for row in found.process if row.level == "edits"]
    asked = [
        (*render_verdict(ISSUES[0].issue, edits[n], f"Record: {n}"), verdict)
        for n, verdict in enumerate("+-")
    ]
    assert [tuple(one.content for one in (*row.prompt, *row.completion)) for row in rows] == asked
    assert report.verdicts == {"right": 1, "wrong": 1}
    assert "among the rows of the prm: 1 right, 1 wrong" in render_filter_report(report)
    assert [(row.summary, row.verdict) for row in found.candidates] == [
        (f"Record: {n}", verdict) for n, verdict in enumerate((True, False, None, None, None))
    ]


def test_an_easy_issue_does_not_outweigh_the_others(tmp_path: Path) -> None:
    reply = ReplyRow(stage="files", system="s", messages=(), answer="", thinking="")
    many = [
        Attempt(
            issue=ISSUES[0].id,
            source=f"run {n}",
            diff=ISSUES[0].reference,
            replies=(replace(reply, answer=str(n), thinking="Hm." * (n % 2)),),
            script="x",
            red_before=True,
            green_on_reference=True,
            resolved=True,
        )
        for n in range(6)
    ]  # fmt: skip
    found, report = filtered(tmp_path, ISSUES[:1], many, until=NEVER)
    assert len(found.policy) == 4
    assert (report.spared, report.thoughtless) == (2, 2)


def test_an_issue_with_many_edits_does_not_outweigh_the_others(tmp_path: Path) -> None:
    many = [
        Attempt(issue=ISSUES[0].id, source=f"run {n}", diff=edit(n, f"no {n}\n"), resolved=n > 20)
        for n in range(40)
    ]
    found, report = filtered(tmp_path, ISSUES[:1], many, until=NEVER)
    assert report.verdicts == {"right": 8, "wrong": 8}
    assert {
        level: sum(row.level == level for row in found.process)
        for level in ("files", "places", "edits")
    } == {"files": 8, "places": 15, "edits": 16}
