"""Where GitHub does not make the commits, an operator's SSH key signs what is pushed."""

import shutil
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.cli.doctor_checks import check_signing_key, run_checks
from bot.cli.doctor_services import CheckFailed
from bot.data.run import RunStatus
from capuchin_demo.hub.state import Repo
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from sandbox.frozen import replace
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, REVIEW_LINE
from tests.e2e.harness import BotHarness, StartBot
from tests.support.github.hub import LocalHub
from tests.support.github.hub_state import Rules
from tests.support.hub import settings_for

EMAIL = "releases@acme.example"


def make_key(path: Path, *, passphrase: str = "") -> str:
    """A key whose signatures differ from each other; its public half."""
    words = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", passphrase, "-C", "", "-f", str(path)]
    subprocess.run(words, check=True, timeout=60)
    return path.with_suffix(".pub").read_text().strip()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir(mode=0o700)
    return tmp_path / "keys" / "signing"


@pytest.fixture
async def signing_bot(start_bot: StartBot, hub: LocalHub, key: Path) -> AsyncGenerator[BotHarness]:
    """The bot with a key that an account of this GitHub has registered."""
    hub.signing_keys[EMAIL] = make_key(key)
    async with start_bot(signing_key=f"{EMAIL}:{key}", log_level="debug") as bot:
        yield bot


def refuse_trees(hub: LocalHub) -> None:
    """GitHub takes no tree by its API, as it does of very large ones."""
    message = "Sorry, your request timed out. It's likely that your input was too large."
    hub.faults.fail_next("POST", "/repos/*/git/trees", status=422, message=message, times=1000)


def find_unverified(hub: LocalHub, repo: Repo, branch: str) -> list[str]:
    ours = repo.git.log(branch, without="main")
    assert ours
    return [one.message for one in ours if one.sha not in hub.site.verified]


async def test_what_is_pushed_passes_a_rule_that_demands_signatures(
    signing_bot: BotHarness, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bot = signing_bot
    caplog.set_level("DEBUG")
    repo = bot.add_repo()
    bot.hub.rules[repo.id] = Rules(signatures=True)
    refuse_trees(bot.hub)
    issue = await bot.open_issue(repo)
    assert (await bot.solve(issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said so.")
    await bot.hub.review(pull, "alice", state="CHANGES_REQUESTED", lines=REVIEW_LINE)
    await bot.settle()
    assert "# Both count." in (repo.read_file(pull.head_ref, "shop.py") or "")
    assert find_unverified(bot.hub, repo, pull.head_ref) == []
    ours = repo.git.log(pull.head_ref, without="main")
    assert {(one.author.name, one.committer.email) for one in ours} == {("capuchin[bot]", EMAIL)}
    assert_nowhere(key.read_text().splitlines()[1], bot, caplog.text)
    assert_nowhere(str(key), bot, "")


def assert_nowhere(secret: str, bot: BotHarness, log: str) -> None:
    files = [path for path in bot.settings.data_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert secret not in log


@pytest.mark.parametrize("effect", range(3, 6))
async def test_another_worker_without_the_mirror_pushes_the_same_commits(
    hub: LocalHub, redis: Redis, settings_fields: dict[str, object], key: Path, effect: int
) -> None:
    hub.signing_keys[EMAIL] = make_key(key)
    fields = {**settings_fields, "signing_key": f"{EMAIL}:{key}"}
    bot = BotHarness(hub, redis, settings_for(hub, **fields))
    repo, issue = await bot.prepare_issue()
    refuse_trees(hub)
    lease = await bot.die_after(effect, await bot.lease(repo, issue))
    shutil.rmtree(bot.settings.data_dir)
    run = await bot.work_on(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert repo.list_branches() == [repo.pulls[0].head_ref, "main"]
    assert len(repo.pulls) == 1
    assert find_unverified(hub, repo, repo.pulls[0].head_ref) == []


async def test_a_key_that_signs_nothing_stops_no_fix_and_is_logged(
    start_bot: StartBot, hub: LocalHub, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_bot(signing_key=f"{EMAIL}:{key}") as bot:
        repo = bot.add_repo()
        refuse_trees(hub)
        assert (await bot.solve(await bot.open_issue(repo))).status is RunStatus.OPENED_PULL_REQUEST
        assert "CAPUCHIN_SIGNING_KEY" in caplog.text


async def test_doctor_signs_with_the_key(signing_bot: BotHarness, key: Path) -> None:
    checks = {one.name: one for one in await run_checks(signing_bot.settings)}
    assert checks["signing key"].works
    assert EMAIL in checks["signing key"].found
    make_key(locked := key.with_name("locked"), passphrase="secret words")
    make_key(shown := key.with_name("shown"))
    shown.chmod(0o644)
    for path, found in (
        (locked, "passphrase"),
        (shown, "permissions"),
        (key.with_name("missing"), "missing"),
    ):
        with pytest.raises(CheckFailed, match=f"(?i){found}") as failed:
            await check_signing_key(replace(signing_bot.settings, signing_key=f"{EMAIL}:{path}"))
        assert failed.value.mend
