"""`capuchin evaluate --trees`: the table of CodeMonkeys' Figure 3."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from bot.cli.lab.evaluate_recall import measure_recall
from bot.settings import Settings
from pipeline.codebase.git import git
from tests.support.command_line import done, refused
from tests.support.data.diffs import diff_of
from tests.support.data.repositories import make_repository
from tests.support.recorded_scout import NO, YES, scouted

BEFORE = "def total(items):\n    return 0\n"
DIFF = diff_of(BEFORE, BEFORE.replace("0", "1"), "shop/till.py")
FILES = {
    "shop/till.py": BEFORE,
    "shop/long.py": "def total(total):\n" + "    total = total + total\n" * 2500,
    "shop/names.py": "def name():\n    return 'x'\n",
}


def rows(folder: Path) -> Path:
    (folder / "trees").mkdir()
    commit = asyncio.run(make_repository(folder / "trees/a__shop.git", FILES, loose=True))
    words = "total of items is wrong in the till"
    row = {"repo": "a/shop", "problem_statement": words, "base_commit": commit, "patch": DIFF}
    said = [
        {**row, "instance_id": "one"},
        {**row, "instance_id": "two", "repo": "b/elsewhere"},
        {**row, "instance_id": "three", "base_commit": "0" * 40},
        {**row, "instance_id": "four", "patch": DIFF.replace("till", "new")},
    ]
    place = folder / "instances.jsonl"
    place.write_text("".join(json.dumps(r) + "\n" for r in said))
    return place


def test_recall_by_budget_is_reported_and_so_is_what_cannot_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAPUCHIN_SCOUT_MODEL", raising=False)
    out = tmp_path / "out"
    given = [str(rows(tmp_path)), "--trees", str(tmp_path / "trees")]
    found = done("evaluate", *given, "--out", str(out), "--json").json
    assert found["instances"] == 1
    assert found["ways"]["words"]["recall"]["128000"] == 100
    assert "no clone of b/elsewhere" in found["missing"]["two"]
    assert "has no commit 000" in found["missing"]["three"]
    assert "changes no source file" in found["missing"]["four"]
    assert "Not measured: 3 instances." in (out / "recall.md").read_text()
    assert "<svg" in (out / "recall.svg").read_text()


def test_a_clone_that_is_not_whole_is_reported(tmp_path: Path) -> None:
    instances = rows(tmp_path)
    tree = tmp_path / "trees/a__shop.git"
    blob = asyncio.run(git(tree, "rev-parse", "HEAD:shop/names.py")).decode().strip()
    (tree / "objects" / blob[:2] / blob[2:]).unlink()
    said = refused("evaluate", str(instances), "--trees", str(tmp_path / "trees"))
    assert "is not whole: shop/names.py" in said


def test_without_any_tree_it_says_so(tmp_path: Path) -> None:
    words = ("evaluate", str(rows(tmp_path)), "--trees")
    (tmp_path / "none").mkdir()
    assert "None of the 4 instances can be measured." in refused(*words, str(tmp_path / "none"))
    assert refused(*words, str(tmp_path / "nowhere"))


def test_with_a_scout_all_three_ways_are_compared_and_its_speed_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def both() -> None:
        answers = [{"when": ['path="shop/till.py"'], "reply": YES}, {"reply": NO}]
        async with scouted(*answers) as (_, server), server.serve() as url:
            settings = Settings(scout_model=f"openai:scout@{url}/v1")
            found = await measure_recall(instances, tmp_path / "trees", None, settings)
        assert list(found.ways) == ["words", "scout", "both"]
        scout = found.ways["scout"]
        assert scout.recall[4000] == 100
        assert scout.compression > found.ways["words"].compression
        assert scout.read_tokens > 0
        assert found.ways["words"].read_tokens == 0

    instances = rows(tmp_path)
    asyncio.run(both())
    assert re.search(r"processed [1-9][\d,]* tokens per second", capsys.readouterr().err)
