"""The pages of the runs as Chromium shows them: phone and desktop, light and dark, live, and
without scripts."""

import os
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from bot.data.progress import Progress
from bot.data.run import Lane, Login, RepoRef, Run, RunStatus, now
from bot.server.app import create_app
from bot.server.connections import serve_app
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from bot.storage.workers import WorkerState
from pipeline.data.code_places import Context, Findings, ShownFile
from pipeline.data.types import Account, Usage
from pipeline.environment.health import Health, ImportedPackage
from pipeline.environment.record import EnvironmentRecord, TriedAttempt
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.workflows.outcome import save_end
from sandbox.frozen import replace
from tests.support.browser import DESKTOP, PHONE, PROGRAM, Scheme, Tab, open_tab
from tests.support.data.publishing import FAILS, FIX, proven, selection_of_three

pytestmark = pytest.mark.skipif(not PROGRAM, reason="no chromium here")

TOKEN: Final = "operator's token"
REPO: Final = RepoRef(id=1, owner="acme", name="a-shop-with-a-long-name", installation=99)
SIZES: Final = {"phone": PHONE, "desktop": DESKTOP}
HOSTILE: Final = "<img src=x onerror=alert(1)>" + "x" * 300
PICTURES: Final = os.environ.get("PAGE_PICTURES", "")  # noqa: TID251 - where a person looks at them


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, dashboard_token=SecretStr(TOKEN), public_url="https://bot.acme.test/")


@pytest.fixture
async def site(settings: Settings) -> AsyncGenerator[str]:
    async with serve_app(create_app(settings), "127.0.0.1", 0) as url:
        yield url


async def begin(storage: Storage, issue: int = 7, **fields: object) -> Lease:
    asked = await storage.runs.create(REPO, issue, asked_by=Login("ann"), delivery=f"d{now()}")
    lease = await Lease.acquire(storage, asked.run_id, worker="w", seconds=60)
    assert lease is not None
    fields = {"started_at": now() - timedelta(minutes=11), "status": RunStatus.RUNNING} | fields
    await lease.save(replace(lease.run, base_commit="0123456789abcdef" * 2, starts=1, **fields))
    return lease


async def report_work(storage: Storage, run: Run) -> None:
    """Save what the pipeline saves while it works on `run`."""
    began = run.started_at or now()
    stages = {"environment": 0, "context": 3, "edits": 4, "choice": 8, "reproduction": 10}
    progress = Progress(
        doing="Writing the regression test.",
        stages={stage: began + timedelta(minutes=at) for stage, at in stages.items()},  # pyright: ignore[reportArgumentType]
        files=412,
        tests=4,
        edits=3,
        suite_tests=1204,
        dollars=0.83,
    )
    await storage.progress.save(run.id, progress)
    store = storage.checkpoints(run.id)
    accounts = [
        Account(
            stage=stage,
            model="claude-sonnet-4-6",
            calls=calls,
            usage=Usage(input=31_000 * calls, output=900 * calls, cache_read=120_000),
            dollars=0.02 * calls,
        )
        for stage, calls in (("relevance", 41), ("testing", 6), ("editing", 9), ("choosing", 2))
    ]
    ledger = Ledger(accounts=tuple(accounts), sent_to=("api.anthropic.com",))
    await store.save(LEDGER_KEY, ledger)
    health = Health(
        python="3.12.4",
        packages=(ImportedPackage(name="shop"),),
        command=("python", "-m", "pytest"),
        files=4,
        of_files=9,
        collected=1204,
        passed=31,
    )
    tried = TriedAttempt(name="uv", summary="uv sync --frozen.", image="i", health=health)
    record = EnvironmentRecord(tried=(tried,), chosen=0, finished=True)
    await store.save("environment/0a1b/record", record)


async def end(lease: Lease) -> Run:
    """Finish the run with three edits and more scripts than a phone has room for."""
    run = lease.run
    chosen = selection_of_three()
    files = [
        ShownFile(path=f"shop/orders/part_{n}/totals.py", tokens=900 + n, partial=n == 2, why=why)
        for n, why in enumerate(("It holds `total()`.", HOSTILE, "", "It imports it."))
    ]
    found = Findings(way="scout", files=412, read=412, read_tokens=300_000, shown=tuple(files))
    proof = chosen.evidence
    wide = replace(FAILS, output=f"{HOSTILE}\n" * 40)
    runs = tuple(row * 6 for row in (proof.votes.runs[0], proof.votes.runs[1], (wide, wide)))
    votes = replace(proof.votes, tests=proof.votes.tests * 6, base=proof.votes.base * 6, runs=runs)
    told = proven(
        chosen,
        votes=votes,
        reproduced=("fails", "passes", "fails"),
        context=Context(files=(), findings=found, dropped=("a.py",)),
    )
    await save_end(lease.checkpoints, told)
    ended = replace(
        run,
        status=RunStatus.OPENED_PULL_REQUEST,
        finished_at=now(),
        dollars=1.16,
        pull_request=9,
        pull_request_url="https://github.com/acme/shop/pull/9",
    )
    await lease.finish(ended)
    return ended


async def end_many(storage: Storage) -> None:
    """Runs of the last days, with all kinds of ends."""
    ends = (RunStatus.OPENED_PULL_REQUEST, RunStatus.NO_FIX, RunStatus.FAILED, RunStatus.STOPPED)
    for number in range(40):
        at = now() - timedelta(days=number * 0.7)
        lease = await begin(
            storage, 100 + number, started_at=at - timedelta(minutes=4 + number % 9)
        )
        ended = {"status": ends[number % 4], "finished_at": at}
        await lease.finish(replace(lease.run, dollars=0.4 + number % 5, created_at=at, **ended))


def address(site: str, settings: Settings, run: Run) -> str:
    return settings.page_url(run.id).replace("https://bot.acme.test", site)


async def check_page(tab: Tab, name: str) -> None:
    """Nothing is wider than the screen, no picture is without words, nothing was refused."""
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await tab.evaluate(wide) <= 0, name
    pictures = "[...document.querySelectorAll('svg[role=img]')]"
    assert await tab.evaluate(f"{pictures}.every(e => e.querySelector('title').textContent.trim())")
    assert await tab.evaluate("document.querySelectorAll('img').length") == 0
    assert tab.problems == []
    if PICTURES:
        await tab.save_picture(Path(PICTURES) / f"{name}.png")


async def test_a_finished_run_and_the_list_fit_phone_and_desktop_light_and_dark(
    site: str, settings: Settings, storage: Storage
) -> None:
    lease = await begin(storage)
    await report_work(storage, lease.run)
    run = await end(lease)
    await end_many(storage)
    await begin(storage)  # the issue's next run, at work
    await storage.runs.create(REPO, 50, asked_by=Login("bob"), delivery="queued")
    busy = {Lane.ISSUES: 1}
    slots = {Lane.ISSUES: 2, Lane.PULLS: 1}
    await storage.workers.save_heartbeat(WorkerState(name="host-1", slots=slots, busy=busy))
    backgrounds: set[str] = set()
    async with open_tab({"Authorization": f"Bearer {TOKEN}"}) as tab:
        for size, measures in SIZES.items():
            for scheme in ("light", "dark"):
                page: Scheme = scheme
                await tab.show(address(site, settings, run), measures, page)
                await check_page(tab, f"run-{size}-{scheme}")
                backgrounds.add(await tab.evaluate("getComputedStyle(document.body).background"))
                assert (
                    await tab.evaluate("document.querySelectorAll('.votes tbody tr').length") == 4
                )
                await tab.show(f"{site}/runs", measures, page)
                await check_page(tab, f"runs-{size}-{scheme}")
                assert await tab.evaluate("document.querySelectorAll('figure svg').length") >= 3
    assert len(backgrounds) == 2


async def test_a_page_is_live_while_the_run_works_and_reloads_at_its_end(
    site: str, settings: Settings, storage: Storage
) -> None:
    lease = await begin(storage)
    await storage.progress.save(lease.run.id, Progress(doing="Reading files.", files=3))
    async with open_tab() as tab:
        await tab.show(address(site, settings, lease.run), PHONE, "light")
        await tab.evaluate("window.stayed = true")
        await storage.progress.save(lease.run.id, Progress(doing=FIX[:10] + HOSTILE, files=77))
        await tab.wait_for("document.getElementById('live').textContent.includes('77 files')")
        assert await tab.evaluate("window.stayed")
        await report_work(storage, lease.run)
        await tab.wait_for("document.querySelectorAll('.bar rect').length === 5")
        await check_page(tab, "live-phone-light")
        await end(lease)
        await tab.wait_for("!window.stayed && document.body.textContent.includes('(chosen)')")
        await check_page(tab, "ended-phone-light")


async def test_a_page_without_scripts_reloads_by_itself(
    site: str, settings: Settings, storage: Storage
) -> None:
    lease = await begin(storage)
    await report_work(storage, lease.run)
    async with open_tab() as tab:
        await tab.show(address(site, settings, lease.run), PHONE, "dark", scripts=False)
        await check_page(tab, "live-phone-dark-without-scripts")
        refresh = "document.querySelector('noscript meta[http-equiv=refresh]') !== null"
        assert await tab.evaluate(refresh)
