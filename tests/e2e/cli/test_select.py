"""`capuchin select`: diffs and branches of a local repository in; the choice, or a no, out."""

from __future__ import annotations

import json

import pytest

from bot.cli import local_run
from tests.e2e.cli.desk import NOT_RIGHT, RIGHT, SCRIPT, TEST_FILE, TILL, Desk
from tests.support.data import local_git


async def test_the_best_of_diffs_and_branches_is_chosen_by_a_given_test_without_any_model(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.branch("wrong", {"shop/till.py": NOT_RIGHT})
    desk.branch("right", {"shop/till.py": RIGHT})
    broken = desk.file("broken.diff", "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-x\n+y\n")
    wrong, empty = desk.diff("wrong.diff", "wrong"), desk.file("empty.diff", "")
    test = desk.file("T.py", SCRIPT)
    out = ("--test", test, "--out", str(desk.out))
    edits = ("--patch", wrong, broken, "--patch", empty, "--branch", "right")
    assert await desk.select(*edits, *out, "--json") == local_run.FIXED
    report = json.loads(capsys.readouterr().out)
    assert report == desk.report()
    assert (report["outcome"], report["title"], report["accounts"]) == ("fix", "right", [])
    # The unedited code, then edit A: the best comes first.
    assert [row["results"] for row in report["table"]] == [[False], [True], [False]]
    assert report["order"] == ["right", wrong]
    assert [r["name"] for r in report["rejected"]] == [broken, empty]
    assert "none.py" in report["rejected"][0]["why"]
    assert report["suite"]["broken"] == []
    assert "+    return a + b" in (desk.out / "patch.diff").read_text()
    text = (desk.out / "report.md").read_text()
    assert "`right`" in text
    assert local_git.git(desk.repo, "status", "--porcelain") == ""
    # The same again from the bundle, without Docker, model or repository.
    assert await desk.replay("--json") == local_run.FIXED
    told = json.loads(capsys.readouterr().out)
    assert (told["equal"], told["chosen"], told["order"]) == (True, "right", ["right", wrong])
    assert await desk.replay("--selection", "voting") == local_run.FIXED
    assert "right" in capsys.readouterr().out


async def test_a_needless_large_file_does_not_win_over_two_equal_small_edits(desk: Desk) -> None:
    large = "".join(f"def unused_{n}(x):\n    return x + {n}\n" for n in range(25_000))
    desk.branch("padded", {"shop/till.py": RIGHT, "shop/more.py": large})
    desk.branch("small", {"shop/till.py": RIGHT})
    desk.branch("equal", {"shop/till.py": RIGHT + "\n# Adds up.\n"})
    edits = [word for name in ("padded", "small", "equal") for word in ("--branch", name)]
    test = ("--test", desk.file("T.py", SCRIPT))
    assert await desk.select(*edits, *test, "--out", str(desk.out)) == local_run.FIXED
    assert desk.report()["title"] == "small"


async def test_edits_bring_their_own_tests_and_an_honest_no_has_its_exit_code(desk: Desk) -> None:
    desk.branch("claims", {"shop/till.py": NOT_RIGHT, "tests/test_total.py": TEST_FILE})
    desk.branch("other", {"shop/till.py": NOT_RIGHT + "\n# Done.\n"})
    edits = ("--branch", "claims", "--branch", "other", "--out", str(desk.out))
    assert await desk.select(*edits) == local_run.NO_FIX
    report = desk.report()
    assert (report["outcome"], report["reason"]) == ("no fix", "no edit passes its test")
    assert not (desk.out / "patch.diff").exists()
    text = (desk.out / "report.md").read_text()
    assert "none of them" in text
    assert await desk.replay() == local_run.NO_FIX


async def test_without_any_test_a_solver_writes_some_and_the_ceiling_holds(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.branch("wrong", {"shop/till.py": NOT_RIGHT})
    desk.branch("right", {"shop/till.py": RIGHT})
    desk.branch("also", {"shop/till.py": TILL.replace("a - b", "b + a")})
    edits = ("--branch", "wrong", "--branch", "right", "--branch", "also")
    out, asking = ("--out", str(desk.out)), desk.asking
    spent = await desk.select(*edits, "--budget", "0.000001", *out, settings=asking)
    assert (spent, desk.report()["reason"]) == (local_run.OUT_OF_BUDGET, "out of budget")
    assert await desk.select(*edits, *out, settings=asking) == local_run.FIXED
    assert desk.report()["title"] in ("right", "also")
    assert await desk.replay("--json") == local_run.FIXED
    assert '"decided_by": "model"' in (told := capsys.readouterr().out)
    assert '"equal": true' in told
    assert "1 written by me" in (desk.out / "report.md").read_text()
    # Neither test nor solver: what the edits have in common decides, and it is said.
    desk.keep_runs(desk.out, desk.out / "alone")
    alone = ("--confidence", "0", "--selection", "ast_voting", "--out", str(desk.out / "alone"))
    assert await desk.select(*edits, *alone) == local_run.FIXED
    assert "no test" in (desk.out / "alone" / "report.md").read_text()


async def test_wrong_usage_is_one_sentence(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    big = desk.file("big.py", "#" * 300_000)
    patch = ("--patch", desk.file("a.diff", "x"))
    for words, said in (
        ((), "There is nothing to choose from: give --patch or --branch."),
        (("--patch", "none.diff"), "none.diff: No such file or directory."),
        (("--branch", "--output=x"), "has no branch --output=x."),
        ((*patch, "--test", big), "is larger than 256 KiB."),
        ((*patch, "--confidence", "7"), "--confidence must be from 0 to 1."),
    ):
        args = [f"{w}={words[n + 1]}" if w == "--branch" else w for n, w in enumerate(words)]
        args = [w for n, w in enumerate(args) if not (n and words[n - 1] == "--branch")]
        assert await desk.select(*args) == local_run.USAGE
        assert said in capsys.readouterr().err
