"""`capuchin learn make`: bugs made on purpose, which the repository's own tests notice."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bot.cli import main
from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.data.repositories import make_repository

FILES = {
    **shop.FILES,
    "shop/till.py": (
        "def total(prices):\n    if not prices:\n        return 0\n    return sum(prices)\n\n\n"
        "def unused(items):\n    return len(items) > 3\n"
    ),
    "tests/test_till.py": (
        "from shop.till import total\n\n\ndef test_nothing():\n    assert total([]) == 0\n\n\n"
        "def test_one():\n    assert total([3]) == 3\n"
    ),
}
TEXT = "<title>\nWrong totals\n</title>\n<answer>\nThe till shows a wrong total.\n</answer>\n"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_bug_is_made_where_a_test_notices_and_is_a_whole_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    trees, out = tmp_path / "trees", tmp_path / "made"
    head = await make_repository(trees / "acme__shop.git", FILES)
    words = ["learn", "make", "acme/shop", "--trees", str(trees), "--out", str(out)]
    llm = RecordedServer(shop.answers(RecordedAnswer(call="making", reply=TEXT)))
    async with llm.serve() as url:
        monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "anthropic:recorded-claude-sonnet-4-6")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "recorded")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        for _ in range(2):
            assert await asyncio.to_thread(main, words) == 0
            assert "1 instance in" in capsys.readouterr().out
    assert len(llm.requests) == 1, "the second call finds it made"
    assert "not prices" in llm.requests[0].model_dump_json()
    (row,) = read(out / "instances.jsonl")
    assert row["problem_statement"].startswith("Wrong totals\n")
    assert row["FAIL_TO_PASS"]
    assert row["base_commit"] != head
    git = ["git", "--git-dir", str(trees / "acme__shop.git")]
    kept = subprocess.run(
        [*git, "grep", "-h", "def test", row["base_commit"]], capture_output=True, check=True
    )
    hidden = {name.rpartition("::")[2] for name in row["FAIL_TO_PASS"]}
    assert not hidden & set(kept.stdout.decode().replace("(", " ").split())
    dates = [
        subprocess.run([*git, "show", "-s", "--format=%ct", one], capture_output=True, check=True)
        for one in (head, row["base_commit"])
    ]
    assert dates[0].stdout == dates[1].stdout, "its environment is that of the repository"
    heads = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
    assert heads.stdout.decode().strip() == head, "the branch stays as it is"
    for grade, score in (("gold", 100), ("none", 0)):
        words = ["evaluate", str(out / "instances.jsonl"), "--trees", str(trees), "--json"]
        assert await asyncio.to_thread(main, [*words, "--grade", grade]) == 0
        assert json.loads(capsys.readouterr().out)["score"] == score


async def test_without_a_test_that_notices_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "openai:none@http://127.0.0.1:9/v1")
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    tests = "import shop.till\n\n\ndef test_it():\n    assert shop.till\n"
    await make_repository(tmp_path / "acme__shop.git", FILES | {"tests/test_till.py": tests})
    words = ["learn", "make", "acme/shop", "--trees", str(tmp_path), "--out", str(tmp_path / "o")]
    assert await asyncio.to_thread(main, words) == 2
    assert "No test of acme/shop" in capsys.readouterr().err
