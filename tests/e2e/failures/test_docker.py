"""Docker restarted in the middle of a run: the run waits for it, says so, and goes on."""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from bot.data.failure import Failure
from bot.data.run import RunId, RunStatus, now
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from capuchin_demo.hub.state import Repo
from capuchin_demo.recorded.recording import RecordedAnswer
from pipeline.codebase.commit import Codebase
from sandbox.docker.base_image import recipe_digest
from sandbox.engine import EnvironmentRequest
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot
from tests.support.docker import build_environment, containers_of
from tests.support.own_docker_daemon import OwnDaemon, can_run_own_daemon

SLOW = RecordedAnswer(
    call="testing",
    turn=0,
    reply=shop.SCRIPT.replace("import sys", "import sys, time\ntime.sleep(3)"),
)


@pytest.fixture
def own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[OwnDaemon]:
    if not can_run_own_daemon():
        pytest.skip("this needs root and dockerd: it kills a Docker daemon of its own")
    with OwnDaemon(tmp_path / "dockerd") as own:
        yield own
    for records in (caplog.get_records(when) for when in ("setup", "call")):
        records.clear()  # they hold errors, and those hold sockets
    gc.collect()  # while the warning about what the SDK left is expected


async def furnish(own: OwnDaemon, daemon: docker.APIClient, repo: Repo, settings: Settings) -> None:
    """Give `own` the repository's environment: it has no network to install one with."""
    engine = build_engine(settings)
    codebase = await Codebase.open(repo.git.path, repo.git.log("main")[0].sha)
    image = await build_environment(
        engine, EnvironmentRequest(await codebase.build_tree(), scope=repo.full_name)
    )
    await engine.close()
    own.copy_image(image, daemon)
    client = own.client()
    # Looked for first, and of no use where the environment itself is there.
    client.tag(image, "capuchin/base", recipe_digest())
    client.close()


# The SDK does not close a socket by which nobody could be reached.
@pytest.mark.filterwarnings("ignore:unclosed <socket.*family=1,:ResourceWarning")
async def test_docker_restarted_in_the_middle_of_a_run(
    own: OwnDaemon,
    daemon: docker.APIClient,
    start_recorded_bot: StartBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with start_recorded_bot(shop.answers(SLOW)) as bot:
        repo = bot.add_repo()
        await furnish(own, daemon, repo, bot.settings)
        issue = await bot.open_issue(repo)
        run = await bot.run_of(issue)
        monkeypatch.setenv("DOCKER_HOST", own.url)
        async with bot.working(settle=False, model_waits=()):
            monkeypatch.delenv("DOCKER_HOST")  # the worker has it
            await until_executing(bot, own, run.id)
            own.kill()
            await bot.until(lambda: waits(bot, run.id))
            (comment,) = issue.comments
            assert "waiting for the sandbox" in comment.body
            own.start()
            await bot.runs.bring_forward(await bot.run_of(issue), now())
            run = await bot.wait_for_end(run)
        assert run.status is RunStatus.OPENED_PULL_REQUEST, comment.body
        assert run.starts == 2
        assert (len(repo.pulls), len(issue.comments), issue.labels) == (1, 1, [])
        assert "I opened #2" in comment.body
        questions = Counter((q.call, q.turn, q.messages) for q in bot.llm.requests)
        assert questions.most_common(1)[0][1] == 1


async def until_executing(bot: BotHarness, own: OwnDaemon, run_id: str) -> None:
    """A script of the run is executed."""
    client = own.client()

    async def there() -> bool:
        return bool(containers_of(client, run_id, status="running"))

    try:
        await bot.until(there)
    finally:
        client.close()


async def waits(bot: BotHarness, run_id: str) -> bool:
    run = await bot.runs.get(RunId(run_id))
    assert run is not None
    return run.waiting_for is Failure.SANDBOX_UNAVAILABLE and run.not_before is not None
