"""Ended runs leave Redis for an object store, and are still there for who asks."""

import dataclasses
import io
import logging
import tarfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest
import zstandard

from bot import archive as archiver
from bot.archive import ArchiveUnavailable, ObjectStore
from bot.cli.doctor_checks import check_archive, run_checks
from bot.cli.doctor_services import CheckFailed
from bot.data.run import Run, now
from bot.settings import Settings, SettingsError
from bot.storage.checkpoints import LONG_LIVED_KEYS
from bot.telemetry.measurements import METRICS
from sandbox.frozen import replace
from tests.e2e.harness import BotHarness, StartBot
from tests.support.s3 import S3Server, run_s3

ARCHIVE = "s3://old/of/capuchin"
TOKEN = "operators"


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[S3Server]:
    with run_s3(tmp_path / "s3", monkeypatch) as server:
        yield server


@pytest.fixture
async def bot(start_bot: StartBot, s3: S3Server) -> AsyncGenerator[BotHarness]:
    del s3
    async with start_bot(
        archive=ARCHIVE, archive_seconds=0.2, archive_after_seconds=3600, dashboard_token=TOKEN
    ) as bot:
        yield bot


async def download(bot: BotHarness, run: Run) -> httpx.Response:
    server = str(bot.hub.webhook_url).removesuffix("/webhook")
    async with httpx.AsyncClient(base_url=server, timeout=120, trust_env=False) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return await client.get(f"/runs/{run.id}/run.tar.zst", headers=headers)


def read_files(bundle: bytes) -> dict[str, bytes]:
    data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(bundle)).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # pyright: ignore[reportOptionalMemberAccess]


async def finish_run(bot: BotHarness, repo: str = "acme/shop") -> Run:
    run = await bot.solve(await bot.open_issue(bot.add_repo(repo)))
    assert run.status.final
    return run


async def archive(bot: BotHarness, run: Run) -> None:
    """A worker runs until the run is in the archive, which it is for at once."""
    archive_at_once(bot)
    async with bot.working(settle=False):
        await bot.until(lambda: bot.storage.archived_runs.is_archived(run.id))


async def is_dealt_with(bot: BotHarness, run: Run) -> bool:
    """Whether the run does not come up for the archive again."""
    due = await bot.storage.archived_runs.list_due(now().timestamp(), 10)
    return run.id not in dict(due)


def archive_at_once(bot: BotHarness) -> None:
    timings = replace(bot.settings.timings, archive_after_seconds=0)
    settings = replace(bot.settings, timings=timings)
    bot.parts = dataclasses.replace(bot.parts, settings=settings)


async def test_an_ended_run_is_downloaded_from_the_archive_as_it_was(
    bot: BotHarness, s3: S3Server
) -> None:
    run = await finish_run(bot)
    before = await download(bot, run)
    assert before.status_code == 200
    assert s3.list_objects() == []
    await archive(bot, run)
    assert f"old/of/capuchin/runs/{run.id}.tar.zst" in s3.list_objects()
    left = await bot.storage.checkpoints(run.id).list_documents()
    assert set(left) <= LONG_LIVED_KEYS
    after = await download(bot, run)
    assert read_files(after.content) == read_files(before.content)
    assert after.headers["content-disposition"] == before.headers["content-disposition"]
    name = f"runs/{run.id}.tar.zst"
    await ObjectStore(ARCHIVE).put(name, b"<html>Please sign in</html>")
    foreign = await download(bot, run)
    assert (foreign.status_code, "Please sign in" in foreign.text) == (503, False)


async def test_what_a_store_says_of_an_error_controls_no_terminal(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    del s3

    def refuse(*_: object) -> None:
        raise ValueError("\x1b[2Jall is well\nkey=abc")

    monkeypatch.setattr("obstore.get_async", refuse)
    with pytest.raises(ArchiveUnavailable) as failed:
        await ObjectStore(ARCHIVE).get("a")
    assert ("\x1b" in str(failed.value), "key=abc" in str(failed.value)) == (False, False)


async def test_a_store_that_does_not_answer_loses_nothing(
    bot: BotHarness, s3: S3Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.archive.RETRIES", 0)
    first = await finish_run(bot)
    before = await download(bot, first)
    s3.stop()
    archive_at_once(bot)
    with caplog.at_level(logging.WARNING):
        async with bot.working(settle=False):
            await bot.until(lambda: "Could not archive ended runs" in caplog.text)
    assert (METRICS.get_sample_value("capuchin_archive_failures_total") or 0) > 0
    assert "s3://old/of/capuchin" in caplog.text
    kept = await download(bot, first)
    assert read_files(kept.content) == read_files(before.content)
    s3.start()
    await archive(bot, first)
    s3.stop()
    gone = await download(bot, first)
    assert (gone.status_code, "archive" in gone.text) == (503, True)


async def test_a_run_that_cannot_be_packed_does_not_hold_up_the_others(
    bot: BotHarness, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await finish_run(bot), await finish_run(bot, "acme/other")
    real = archiver.build_bundle

    async def refuse_first(storage: object, run: Run) -> bytes | None:
        if run.id == first.id:
            raise archiver.BundleTooLarge
        return await real(bot.storage, run)

    monkeypatch.setattr(archiver, "build_bundle", refuse_first)
    archive_at_once(bot)
    async with bot.working(settle=False):
        await bot.until(lambda: bot.storage.archived_runs.is_archived(second.id))
        # Both may have ended in the same second; then either comes first.
        await bot.until(lambda: is_dealt_with(bot, first))
    assert not [name for name in s3.list_objects() if first.id in name]
    assert not await bot.storage.archived_runs.is_archived(first.id)


async def test_doctor_tries_the_archive(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(archive=ARCHIVE)
    assert await check_archive(settings) == ARCHIVE
    assert s3.list_objects() == []
    names = {check.name for check in await run_checks(settings, serving=False)}
    assert "archive" in names
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(CheckFailed) as failed:
        await check_archive(settings)
    assert "AWS_ENDPOINT_URL" in failed.value.mend
    monkeypatch.undo()


async def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    del s3
    with pytest.raises(ArchiveUnavailable, match="s3://nowhere"):
        await ObjectStore("s3://nowhere").put("a", b"b")


@pytest.mark.parametrize("url", ["old", "s3://", "s3://B", "https://a/b", "s3://bucket/a?b"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="CAPUCHIN_ARCHIVE"):
        Settings.from_env({"CAPUCHIN_ARCHIVE": url})
