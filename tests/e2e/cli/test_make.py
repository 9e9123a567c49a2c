"""`capuchin learn make`: bugs made on purpose, which the repository's own tests notice."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.command_line import done, refused
from tests.support.data.repositories import add_commit, make_repository

FILES = {
    **shop.FILES,
    "shop/stock.py": "def left(items):\n    return len(items) - 1\n",
    "shop/till.py": (
        "def total(prices):\n    if not prices:\n        return 0\n    return sum(prices)\n\n\n"
        "def change(paid, prices):\n    return paid - total(prices)\n\n\n"
        "def unused(items):\n    return len(items) > 3\n"
    ),
    "tests/test_till.py": (
        "from shop.till import change, total\n\n\n"
        "def test_nothing():\n    assert total([]) == 0\n\n\n"
        "def test_one():\n    assert total([3]) == 3\n\n\n"
        "def test_change():\n    assert change(5, [3]) == 2\n"
    ),
    "tests/test_stock.py": "def test_there():\n    import shop.stock\n",
}
COMMIT = {
    "shop/stock.py": FILES["shop/stock.py"].replace(" - 1", ""),
    "tests/test_stock.py": (
        "from shop.stock import left\n\n\ndef test_there():\n    assert left\n\n\n"
        "def test_left():\n    assert left([1]) == 1\n"
    ),
    "README.md": "A shop.\n",
}
TEXT = "<title>\nWrong totals\n</title>\n<answer>\nThe till shows a wrong total.\n</answer>\n"
REWRITTEN = "<answer>\ndef total(prices):\n    return sum(prices[1:])\n</answer>\n"
STRATEGIES = {"func_pm", "combine_file", "pr_mirror", "lm_rewrite"}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_bugs_of_each_kind_are_whole_instances_that_tests_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    trees, out = tmp_path / "trees", tmp_path / "made"
    clone = trees / "acme__shop.git"
    await make_repository(clone, FILES)
    head = await add_commit(clone, COMMIT, "Count what is left")
    words = ["learn", "make", "acme/shop", "--trees", str(trees), "--out", str(out), "--count", "4"]
    rewriting = RecordedAnswer(call="making/rewrite/*", reply=REWRITTEN)
    llm = RecordedServer(shop.answers(rewriting, RecordedAnswer(call="making", reply=TEXT)))
    async with llm.serve() as url:
        monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "anthropic:recorded-claude-sonnet-4-6")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "recorded")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        for _ in range(2):
            assert "4 instances in" in (await asyncio.to_thread(done, *words)).out
            asked = [one.call.split("/")[1] for one in llm.requests]
            assert len(asked) == 4 + asked.count("rewrite"), "the second call finds them made"
    rewritten = [one for one in llm.requests if one.call.startswith("making/rewrite/")]
    assert not any("sum(prices)" in one.model_dump_json() for one in rewritten[-1:])
    rows = read(out / "instances.jsonl")
    assert {row["strategy"] for row in rows} == STRATEGIES
    by_strategy = {row["strategy"]: row for row in rows}
    assert by_strategy["combine_file"]["patch"].count("\n-") > 2
    assert "shop/stock.py" in by_strategy["pr_mirror"]["patch"]
    assert "README.md" not in by_strategy["pr_mirror"]["patch"]
    assert "prices[1:]" in by_strategy["lm_rewrite"]["patch"]
    git = ["git", "--git-dir", str(clone)]
    for row in rows:
        assert row["problem_statement"].startswith("Wrong totals\n")
        assert row["FAIL_TO_PASS"]
        assert row["base_commit"] != head
        kept = subprocess.run(
            [*git, "grep", "-h", "def test", row["base_commit"]], capture_output=True, check=True
        )
        hidden = {name.rpartition("::")[2] for name in row["FAIL_TO_PASS"]}
        assert not hidden & set(kept.stdout.decode().replace("(", " ").split())
    dates = {
        subprocess.run(
            [*git, "show", "-s", "--format=%ct", one], capture_output=True, check=True
        ).stdout
        for one in (head, *(row["base_commit"] for row in rows))
    }
    assert len(dates) == 1, "their environments are that of the repository"
    heads = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
    assert heads.stdout.decode().strip() == head, "the branch stays as it is"
    for grade, score in (("gold", 100), ("none", 0)):
        words = ["evaluate", str(out / "instances.jsonl"), "--trees", str(trees), "--json"]
        graded = await asyncio.to_thread(done, *words, "--grade", grade)
        assert graded.json["score"] == score


async def test_without_a_test_that_notices_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "openai:none@http://127.0.0.1:9/v1")
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    tests = "import shop.till\n\n\ndef test_it():\n    assert shop.till\n"
    files = {path: text for path, text in FILES.items() if "stock" not in path}
    await make_repository(tmp_path / "acme__shop.git", files | {"tests/test_till.py": tests})
    words = ["learn", "make", "acme/shop", "--trees", str(tmp_path), "--out", str(tmp_path / "o")]
    assert "No test of acme/shop" in await asyncio.to_thread(refused, *words)
