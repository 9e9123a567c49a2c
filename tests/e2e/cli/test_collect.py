"""`capuchin learn collect --github`: from a repository's closed issues to solved ones."""

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from bot.github.http import MAX_WAIT_SECONDS
from capuchin_demo.hub import pull_actions
from capuchin_demo.hub.state import Repo
from pipeline.codebase.unified_diff import parse_diff
from pipeline.lab.learning.records import read_issues
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.command_line import Ended, done, here
from tests.support.data.repositories import add_commit, make_repository
from tests.support.github import rest_search
from tests.support.github.faults import RateLimit
from tests.support.github.hub import LocalHub
from tests.support.github.hub_state import Popularity

RIGHT = shop.FILES["shop/till.py"].replace("a - b", "a + b")


async def collect(folder: Path, *more: str) -> Ended:
    words = ["learn", "collect", str(folder / "data"), *more, "--trees", str(folder / "trees")]
    return await asyncio.to_thread(here, *words)


@pytest.fixture
def hub(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    """The hub that the command asks, as alice."""
    monkeypatch.setenv("CAPUCHIN_GITHUB_URL", hub.url)
    hub.add_user("alice")
    monkeypatch.setenv("CAPUCHIN_GITHUB_TOKEN", hub.create_personal_token("alice"))
    return hub


@pytest.mark.parametrize("squash", [False, True])
async def test_what_a_merged_pull_request_says_it_closes_is_collected(
    hub: LocalHub, tmp_path: Path, squash: bool
) -> None:
    alice = hub.add_user("alice")
    repo = hub.add_repo("acme/shop", shop.FILES)
    repo.grant("alice", "write")
    issue = await hub.open_issue(repo, shop.TITLE, shop.BODY, author="alice")
    other = await hub.open_issue(repo, "Is it free?", "I wonder whether it is.", author="alice")
    await hub.close_issue(other, "alice")
    await hub.commit(repo, "fix", {"shop/till.py": RIGHT}, "Add", "alice")
    new = pull_actions.NewPull("Add the prices", f"Fixes #{issue.number}.", "fix", "main")
    pull = await pull_actions.open_pull(hub, repo, new, alice)
    await hub.merge(pull, "alice", squash=squash)

    first = await collect(tmp_path, "--github", "acme/shop")
    assert (first.code, "1 left out: no commit" in first.out) == (0, True)
    assert (tmp_path / "trees/acme__shop.git/objects").is_dir()
    again = await collect(tmp_path, "--github", "acme/shop")
    assert (again.code, "0 issues taken" in again.out) == (0, True), "there is nothing new"
    (solved,) = read_issues(tmp_path / "data").values()
    assert solved.id == f"acme__shop-{issue.number}"
    assert (solved.title, solved.body) == (shop.TITLE, shop.BODY)
    assert [file.path for file in parse_diff(solved.reference)] == ["shop/till.py"]


async def test_a_benchmarks_repository_is_named_as_such(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_repo("django/django", shop.FILES)
    taken = await collect(tmp_path, "--github", "django/django")
    assert (taken.code, "one of SWE-bench's repositories" in taken.err) == (0, True)
    none = await collect(tmp_path, "--github", "acme/none")
    assert (none.code, "acme/none" in none.err) == (2, True)
    monkeypatch.delenv("CAPUCHIN_GITHUB_TOKEN")
    unknown = await collect(tmp_path, "--github", "django/django")
    assert (unknown.code, "CAPUCHIN_GITHUB_TOKEN" in unknown.err) == (2, True)


async def close_by_pull(hub: LocalHub, repo: Repo, title: str) -> None:
    """An issue, and a merged pull request that says that it closes it."""
    alice = hub.add_user("alice")
    repo.grant("alice", "write")
    issue = await hub.open_issue(repo, title, shop.BODY, author="alice")
    branch = f"fix-{issue.number}"
    text = RIGHT.replace("a + b", f"a + b + 0 * {issue.number}")
    await hub.commit(repo, branch, {"shop/till.py": text}, "Add", "alice")
    new = pull_actions.NewPull("Add the prices", f"Fixes #{issue.number}.", branch, "main")
    await hub.merge(await pull_actions.open_pull(hub, repo, new, alice), "alice")


async def test_the_most_popular_repositories_are_collected_within_the_limits_of_a_search(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    popular = {
        "django/django": Popularity(80_000, "Python", "BSD-3-Clause"),
        "acme/rust": Popularity(9_000, "Rust", "MIT"),
        "acme/shop": Popularity(8_000, "Python", "MIT"),
        "acme/tea": Popularity(6_000, "Python", "Apache-2.0"),
        "acme/mine": Popularity(900, "Python", "MIT"),
    }
    repos = {name: hub.add_repo(name, shop.FILES) for name in popular}
    hub.popularity |= {repos[name].id: known for name, known in popular.items()}
    for name in ("acme/shop", "acme/tea"):
        await close_by_pull(hub, repos[name], shop.TITLE)
    # A search shows its first two, and this one waits for a minute after its first page.
    monkeypatch.setattr(rest_search, "MOST", 2)
    past = 0.0
    hub.search_limit = RateLimit(lambda: time.time() + past, limit=30, window=60)
    hub.search_limit.allow(1, 60)
    sleep = asyncio.sleep

    async def pass_time(seconds: float) -> None:
        nonlocal past
        if seconds > MAX_WAIT_SECONDS:
            past += seconds
        await sleep(0 if seconds > MAX_WAIT_SECONDS else seconds)

    monkeypatch.setattr(asyncio, "sleep", pass_time)
    hub.faults.fail_next("GET", "/repos/acme/tea/issues", times=4)
    wanted = ["--top", "9"]

    assert (await collect(tmp_path, *wanted)).code == 1
    assert past > MAX_WAIT_SECONDS, "it has waited"
    assert set(read_issues(tmp_path / "data")) == {"acme__shop-1"}, "what is read is kept"
    asked = len(hub.requests)
    assert (await collect(tmp_path, *wanted)).code == 0
    lists = [one for one in hub.requests[asked:] if one.path.endswith("/issues")]
    assert ["since" in dict(one.query) for one in lists] == [True, False], (
        "the first is only looked after"
    )
    found = read_issues(tmp_path / "data")
    assert {name: one.licence for name, one in found.items()} == {
        "acme__shop-1": "MIT",
        "acme__tea-1": "Apache-2.0",
    }
    await close_by_pull(hub, repos["acme/tea"], "The tea is not counted either")
    shutil.rmtree(tmp_path / "trees/acme__tea.git")
    last = await collect(tmp_path, *wanted)
    assert len(read_issues(tmp_path / "data")) == 3
    assert (last.code, "2 issues taken" in last.out) == (0, True)
    assert (await collect(tmp_path, "--top", "0")).code == 2


async def test_the_developers_own_tests_make_a_benchmark_of_what_was_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert (await collect(tmp_path, "--issues", str(issues))).code == 0
    words = ["learn", "filter", str(tmp_path / "data"), "--out", str(rows)]
    trees = ["--trees", str(tmp_path / "trees")]
    await asyncio.to_thread(done, *words, *trees)
    (made,) = map(json.loads, (rows / "instances.jsonl").read_text().splitlines())
    assert made["FAIL_TO_PASS"] == ["tests/test_till.py::test_total"]
    assert made["PASS_TO_PASS"] == ["tests/test_till.py::test_count"]
    grade = ["evaluate", str(rows / "instances.jsonl"), *trees, "--grade", "gold", "--json"]
    assert (await asyncio.to_thread(done, *grade)).json["score"] == 100
