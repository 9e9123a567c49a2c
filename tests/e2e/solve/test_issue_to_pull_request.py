"""The main job: a labelled issue becomes a pull request, on an Enterprise Server too."""

import re
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from bot.data.run import Run, RunStatus
from capuchin_demo.hub.tokens import AppIdentity
from pipeline.bundle import read_bundle
from pipeline.replay import replay
from tests.contracts.github.contract import ContractLog
from tests.e2e import shop
from tests.e2e.harness import BotHarness
from tests.support.certificates import host_certificates
from tests.support.github.hub import LocalHub
from tests.support.hub import SECRET

BRANCH = "capuchin/issue-1-total-subtracts"
SECTIONS = (
    "Timeline",
    "Facts",
    "Edits × scripts",
    "Reproduction test",
    "Scripts",
    "Environment",
    "Files",
)


@pytest.mark.spine
async def test_a_labelled_issue_becomes_a_pull_request(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    repo, issue = await recorded_bot.add_repo_with_issue(label=True)
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST, run
    branch, body = recorded_bot.only_pull_request(repo)
    assert branch == BRANCH
    assert repo.list_commits(branch) == [
        "Make total() add",
        "Add a failing test for #1",
        "Initial commit",
    ]
    assert "return a + b" in (repo.read_file(branch, "shop/till.py") or "")
    red = repo.git.log(branch)[1].sha
    assert "return a - b" in (repo.read_file(red, "shop/till.py") or "")
    assert "\n\nFixes #1\n\n" in body
    assert "recorded answers" in body
    assert "@everyone" not in body
    assert f"I opened #{repo.pulls[0].number}" in issue.comments[0].body
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
    assert issue.labels == []
    assert [check.conclusion for check in repo.check_runs] == ["success"]
    await check_page(recorded_bot, run, tmp_path)


async def check_page(bot: BotHarness, run: Run, folder: Path) -> None:
    """The run's page has all its parts, and its bundle repeats the verdict."""
    assert bot.hub.webhook_url is not None
    page = f"{bot.hub.webhook_url.removesuffix('/webhook')}/runs/{run.id}"
    key = {"key": bot.settings.page_key(run.id)}
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        shown = (await client.get(page, params=key)).text
        (folder / "page.html").write_text(shown)
        assert [name for name in SECTIONS if f"<h2>{name}</h2>" not in shown] == []
        assert "<b>It works.</b>" in shown
        assert shown.count('height="6"/>') == 5, "each stage has its time"
        (folder / "run.tar.zst").write_bytes(
            (await client.get(f"{page}/run.tar.zst", params=key)).content
        )
    bundle = read_bundle(folder / "run.tar.zst")
    assert bundle.manifest["outcome"] == "opened pull request"
    assert (await replay(bundle.documents, None)).equal


HOST = "localhost"
"""Any name that leads to this machine and is not the address that the hub listens on."""
ROOT = Path(__file__).parents[3]


async def test_an_issue_of_an_enterprise_server_becomes_a_pull_request(
    tmp_path: Path, app_identity: AppIdentity, redis: Redis, settings_fields: dict[str, object]
) -> None:
    hub = LocalHub(tmp_path / "hub", SECRET, app_identity)
    log = ContractLog()
    hub.listen(log)
    bundle = host_certificates()
    fields = {**settings_fields, **({"build_ca_bundle": bundle} if bundle else {})}
    recording = shop.answers(shop.RIGHT_AT_ONCE)
    async with (
        hub.serve(enterprise=HOST) as url,
        BotHarness.start(hub, redis, fields, recording=recording) as bot,
    ):
        assert re.fullmatch(rf"http://{HOST}:\d+", url)
        repo = bot.add_repo(config=shop.ONE_SAMPLE)
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        (pull,) = repo.pulls
        assert run.pull_request_url == f"{url}/acme/shop/pull/{pull.number}"
        author = repo.git.log(pull.head_ref)[0].author
        assert author.email.endswith(f"@users.noreply.{HOST}")
    hooks = [delivery.headers["X-GitHub-Enterprise-Host"] for delivery in hub.deliveries]
    assert set(hooks) == {HOST}
    rest = [exchange for exchange in hub.requests if exchange.api == "rest"]
    assert {exchange.headers["x-github-api-version"] for exchange in rest} == {"2022-11-28"}
    assert {exchange.headers["host"].partition(":")[0] for exchange in hub.requests} == {HOST}
    assert all(b"github.com" not in exchange.body for exchange in rest)
    assert log.problems == []


ALLOWED = {
    "bot/settings.py": "the default of CAPUCHIN_GITHUB_URL",
    "bot/github/http.py": "github.com has its API at a host of its own",
    "bot/github/app.py": "github.com has its noreply addresses at users.noreply.github.com",
    "deploy/demo/capuchin_demo/package.py": "where the demo's bug was reported",
    "pipeline/context/files/filters.py": "what files of git-lfs begin with, wherever they are",
}


def hosts_in(file: Path) -> list[str]:
    """Lines of code that name github.com; documentation that is linked to is no such line."""
    text = re.sub(r'""".*?"""', "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = (line.partition("  #")[0] for line in text.splitlines())
    code = (line for line in lines if not line.lstrip().startswith("#"))
    return [line for line in code if "github.com" in line.replace("docs.github.com", "")]


@pytest.mark.parametrize("room", ["bot", "pipeline", "sandbox", "prompts"])
def test_no_host_is_written_into_the_code(room: str) -> None:
    found = {
        str(file.relative_to(ROOT))
        for file in (ROOT / room).rglob("*.py")
        if "localhub" not in file.parts and hosts_in(file)
    }
    assert found <= ALLOWED.keys()
