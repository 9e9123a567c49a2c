"""`capuchin learn collect --github`: from a repository's closed issues to solved ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bot.cli import main
from capuchin_demo.hub import pull_actions
from pipeline.codebase.unified_diff import parse_diff
from pipeline.lab.learning.records import read_issues
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.data.repositories import add_commit, make_repository
from tests.support.github.hub import LocalHub

RIGHT = shop.FILES["shop/till.py"].replace("a - b", "a + b")


async def collect(folder: Path, *more: str) -> int:
    words = ["learn", "collect", str(folder / "data"), *more, "--trees", str(folder / "trees")]
    return await asyncio.to_thread(main, words)


@pytest.mark.parametrize("squash", [False, True])
async def test_what_a_merged_pull_request_says_it_closes_is_collected(
    hub: LocalHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    squash: bool,
) -> None:
    monkeypatch.setenv("CAPUCHIN_GITHUB_URL", hub.url)
    alice = hub.add_user("alice")
    monkeypatch.setenv("CAPUCHIN_GITHUB_TOKEN", hub.create_personal_token("alice"))
    repo = hub.add_repo("acme/shop", shop.FILES)
    repo.grant("alice", "write")
    issue = await hub.open_issue(repo, shop.TITLE, shop.BODY, author="alice")
    other = await hub.open_issue(repo, "Is it free?", "I wonder whether it is.", author="alice")
    await hub.close_issue(other, "alice")
    await hub.commit(repo, "fix", {"shop/till.py": RIGHT}, "Add", "alice")
    new = pull_actions.NewPull("Add the prices", f"Fixes #{issue.number}.", "fix", "main")
    pull = await pull_actions.open_pull(hub, repo, new, alice)
    await hub.merge(pull, "alice", squash=squash)

    assert await collect(tmp_path, "--github", "acme/shop") == 2
    assert "git clone --bare" in capsys.readouterr().err
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees/acme__shop.git").symlink_to(repo.git.path)
    for _ in range(2):
        assert await collect(tmp_path, "--github", "acme/shop") == 0
    assert "1 left out: no commit" in capsys.readouterr().out
    (solved,) = read_issues(tmp_path / "data").values()
    assert solved.id == f"acme__shop-{issue.number}"
    assert (solved.title, solved.body) == (shop.TITLE, shop.BODY)
    assert [file.path for file in parse_diff(solved.reference)] == ["shop/till.py"]


async def test_a_benchmarks_repository_is_taken_only_on_request(
    hub: LocalHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CAPUCHIN_GITHUB_URL", hub.url)
    hub.add_user("alice")
    hub.add_repo("django/django", shop.FILES)
    assert await collect(tmp_path, "--github", "django/django") == 2
    assert "--benchmarks" in capsys.readouterr().err
    taken = ("--github", "django/django", "--benchmarks")
    assert await collect(tmp_path, *taken) == 2
    assert "CAPUCHIN_GITHUB_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("CAPUCHIN_GITHUB_TOKEN", hub.create_personal_token("alice"))
    (tmp_path / "trees").mkdir()
    assert await collect(tmp_path, *taken) == 0
    assert await collect(tmp_path, "--github", "acme/none") == 2
    assert "acme/none" in capsys.readouterr().err


async def test_the_developers_own_tests_make_a_benchmark_of_what_was_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "openai:none@http://127.0.0.1:9/v1")
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    clone = tmp_path / "trees/acme__shop.git"
    await make_repository(clone, shop.FILES)
    total = "from shop.till import total\n\n    assert total(1, 2) == 3\n"
    tests = f"{shop.FILES['tests/test_till.py']}\n\ndef test_total():\n    {total}"
    await add_commit(clone, {"shop/till.py": RIGHT, "tests/test_till.py": tests}, "Fixes #1")
    row = {"repository": "acme/shop", "number": 1, "title": shop.TITLE, "body": shop.BODY}
    issues, rows = tmp_path / "issues.jsonl", tmp_path / "rows"
    issues.write_text(json.dumps(row) + "\n")
    assert await collect(tmp_path, "--issues", str(issues)) == 0
    words = ["learn", "filter", str(tmp_path / "data"), "--out", str(rows)]
    trees = ["--trees", str(tmp_path / "trees")]
    assert await asyncio.to_thread(main, [*words, *trees]) == 0
    (made,) = map(json.loads, (rows / "instances.jsonl").read_text().splitlines())
    assert made["FAIL_TO_PASS"] == ["tests/test_till.py::test_total"]
    assert made["PASS_TO_PASS"] == ["tests/test_till.py::test_count"]
    capsys.readouterr()
    grade = ["evaluate", str(rows / "instances.jsonl"), *trees, "--grade", "gold", "--json"]
    assert await asyncio.to_thread(main, grade) == 0
    assert json.loads(capsys.readouterr().out)["score"] == 100
