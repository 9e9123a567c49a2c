"""The doors beside the webhook: who may look, what they see, and that nothing of it is alive."""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from bot.data.failure import Failure, FailureFacts
from bot.data.progress import Progress
from bot.data.run import Login, Mode, RepoRef, Run, RunId, RunStatus, now
from bot.followup.feedback import BATCH_KEY, FeedbackBatch, Remark
from bot.server.app import create_app
from bot.server.pages import Pages
from bot.settings import Settings
from bot.storage.keys import ISSUE_KEY
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from pipeline.data.code_places import Context, Findings, ShownFile
from pipeline.data.types import CommitSha, Issue
from pipeline.store import encode_record
from pipeline.workflows.outcome import save_end
from pipeline.workflows.revise import REVISING_KEY, ReviseState
from sandbox.frozen import replace
from tests.e2e.webhook.delivery import deliver, labeled, serving
from tests.support.data.publishing import FIX, a_selection, proven
from tests.support.snapshots import assert_snapshot

REPO = RepoRef(id=3, owner="acme", name="shop", installation=99)
TOKEN = "operator's token"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, dashboard_token=SecretStr(TOKEN), public_url="https://bot.acme.test/")


@pytest.fixture
async def client(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    async with serving(create_app(settings)) as client:
        yield client


@dataclass(frozen=True)
class Site:
    """The pages, and the runs that they show."""

    client: httpx.AsyncClient
    storage: Storage
    settings: Settings

    async def begin(self, issue: int = 7, **fields: object) -> tuple[Run, Lease]:
        ann = Login("<b>ann")
        asked = await self.storage.runs.create(REPO, issue, asked_by=ann, delivery=f"d{issue}")
        lease = await Lease.acquire(self.storage, asked.run_id, worker="w", seconds=20)
        assert lease is not None
        await lease.save(replace(lease.run, created_at=AT, **fields))
        return lease.run, lease

    def address(self, run: Run) -> str:
        return self.settings.page_url(run.id).removeprefix("https://bot.acme.test")

    async def page(self, run: Run) -> str:
        """What the link of the comment opens."""
        return (await self.client.get(self.address(run))).text

    async def read(self, path: str) -> httpx.Response:
        """What the operator reads."""
        return await self.client.get(path, headers=OPERATOR)


@pytest.fixture
def site(client: httpx.AsyncClient, storage: Storage, settings: Settings) -> Site:
    return Site(client, storage, settings)


async def test_the_bare_address_leads_to_the_runs(site: Site) -> None:
    answer = await site.client.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "runs")


async def test_the_link_of_the_comment_opens_that_run_and_no_other(site: Site) -> None:
    run, _ = await site.begin()
    other, _ = await site.begin(8)
    link = site.address(run)
    assert (await site.client.get(link)).status_code == 200
    assert (await site.client.get(link.replace(run.id, other.id))).status_code == 401
    assert (await site.client.get(f"/runs/{run.id}?key=")).status_code == 401
    assert (await site.client.get("/runs" + link[link.index("?") :])).status_code == 401


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        ("Basic " + base64.b64encode(f"any:{TOKEN}".encode()).decode(), 200),
        ("Basic " + base64.b64encode(b"any:wrong").decode(), 401),
        ("Basic !!!", 401),
        ("Basic " + base64.b64encode(b"\xff:\xff").decode(), 401),
        ("Bearer", 401),
        ("Bearer ü", 401),
        (f"Digest {TOKEN}", 401),
        ("", 401),
    ],
)
async def test_the_operators_token_opens_the_list(site: Site, header: str, status: int) -> None:
    answer = await site.client.get("/runs", headers=[(b"Authorization", header.encode("latin-1"))])
    assert answer.status_code == status


SIGNED_IN = ("X-Forwarded-Email", "ann@acme.test")


async def test_without_a_token_set_nobody_sees_the_list(settings: Settings) -> None:
    closed = replace(settings, dashboard_token=SecretStr(""))
    async with serving(create_app(closed)) as client:
        for header in ("Bearer", "Basic Og==", "Bearer x"):
            answer = await client.get("/runs", headers={"Authorization": header})
            assert answer.status_code == 403
            assert "CAPUCHIN_DASHBOARD_TOKEN" in answer.text


async def test_a_run_at_work_shows_how_far_it_is(site: Site) -> None:
    run, lease = await site.begin(started_at=AT, base_commit="0123456789abcdef" * 2)
    told = Progress(doing="Writing <i>tests</i>.", files=12, tests=3, edits=2, dollars=0.5)
    await site.storage.redis.set(site.storage.keys.run(run.id, "progress"), encode_record(told))
    await lease.save(replace(lease.run, status=RunStatus.RUNNING))
    answer = await site.client.get(site.address(run))
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    text = re.sub(r"<b>\d+ minutes</b> so far", "<b>MINUTES</b> so far", answer.text)
    text = re.sub("<style>.*?</style>|key=[0-9a-f]{32}", "", text, flags=re.S)
    assert_snapshot("run_page", text.replace(run.id, "RUN"))


async def test_a_run_that_ended_says_why_and_stays_as_it_is(site: Site) -> None:
    run, lease = await site.begin()
    said = "`x`, line 2: [a](javascript:alert(1)) <script>alert(1)</script>"
    await lease.finish(
        replace(
            run,
            status=RunStatus.FAILED,
            failure=Failure.CONFIG_INVALID,
            facts=FailureFacts(words=said),
        )
    )
    page = await site.page(run)
    assert "<code>x</code>, line 2: [a](" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert "http-equiv" not in page


async def test_a_finished_run_shows_its_edits_by_letter_with_what_they_passed(site: Site) -> None:
    run, lease = await site.begin()
    chosen = a_selection(fix=FIX.replace("a + b", "a + b  # </pre><script>"))
    shown = (ShownFile(path="shop.py", tokens=200, partial=False, why="It adds."),)
    found = Findings(way="scout", files=12, read=12, read_tokens=4000, shown=shown)
    chosen = proven(chosen, context=Context(files=(), findings=found))
    store = site.storage.checkpoints(run.id)
    await store.save(
        ISSUE_KEY, Issue(repository="acme/shop", title="total() <b>subtracts", body="")
    )
    await save_end(store, chosen)
    assert "(chosen)" not in await site.page(run)  # not yet
    await lease.finish(replace(run, status=RunStatus.OPENED_PULL_REQUEST, pull_request=9))
    page = await site.page(run)
    first, second = page.index("<b>A</b> (chosen): passes 2 of"), page.index("<b>B</b>: passes")
    assert first < page.index("a + b  # &lt;/pre&gt;&lt;script&gt;") < second < page.index("b + a")
    assert page.count('<details class="edit"') == 2
    assert ": total() &lt;b&gt;subtracts</h1>" in page
    assert f"{chosen.confidence:.0%} likely to be right" in page
    # A sample that explores is shown fewer of them, and reads others.
    assert "1 of 12 files, 200 of 4,000 tokens" in page
    assert "<script" not in page


async def test_a_follow_up_shows_what_was_asked_and_answered(site: Site) -> None:
    run, lease = await site.begin(mode=Mode.FOLLOW_UP)
    store = site.storage.checkpoints(run.id)
    remark = Remark(id="review-1", by=Login("bob"), text="Use <sum>().")
    batch = FeedbackBatch(head=CommitSha("0" * 40), remarks=(remark,), done=True)
    await store.save(BATCH_KEY, batch)
    await store.save(REVISING_KEY, ReviseState(pending="", answer="It sums & adds."))
    await lease.finish(replace(run, status=RunStatus.FOLLOWED_UP))
    page = await site.page(run)
    asked, answered = page.index("Use &lt;sum&gt;()."), page.index("It sums &amp; adds.")
    assert page.index("<b>bob:</b>") < asked < answered


async def test_use_shows_what_was_asked_and_why_it_was_refused(site: Site) -> None:
    run, lease = await site.begin(mode=Mode.USE, candidate=2, anyway=True)
    pull = {"pull_request": 9, "pull_request_url": "https://github.com/acme/shop/pull/9"}
    await lease.finish(replace(run, status=RunStatus.REFUSED, swap_problem="already there", **pull))
    page = await site.page(run)
    asked, answered = page.index(">use B anyway<"), page.index("#9 already holds edit B.")
    assert page.index("/pull/9") < page.index("<b>&lt;b&gt;ann:</b>") < asked < answered
    (row,) = (await site.read("/api/runs")).json()["runs"]
    assert row["reason"] == "already there"


async def test_a_pull_request_is_a_link_only_to_the_web(site: Site) -> None:
    run, lease = await site.begin()
    fields = {"status": RunStatus.OPENED_PULL_REQUEST, "pull_request": 9}
    await lease.save(replace(run, pull_request_url="https://github.com/acme/shop/pull/9", **fields))
    assert 'href="https://github.com/acme/shop/pull/9">#9<' in await site.page(run)
    await lease.save(replace(run, pull_request_url="javascript:alert(1)", **fields))
    assert "javascript" not in await site.page(run)


async def test_the_list_names_every_run_active_or_ended(site: Site) -> None:
    assert 'href="runs/' not in (await site.read("/runs")).text
    first, lease = await site.begin()
    second, _ = await site.begin(8)
    await site.storage.checkpoints(first.id).save(
        ISSUE_KEY, Issue(repository="acme/shop", title="<i>Sum", body="")
    )
    await lease.finish(replace(first, status=RunStatus.NO_FIX, dollars=1.5))
    page = (await site.read("/runs")).text
    assert f'href="runs/{first.id}"' in page
    assert "&lt;i&gt;Sum" in page
    assert f'href="runs/{second.id}"' in page
    assert "$1.50" in page
    assert "&lt;b&gt;ann" in page


async def test_the_queue_shows_what_waits_in_either_lane(site: Site) -> None:
    for issue, mode in ((7, Mode.FIX), (8, Mode.FOLLOW_UP), (9, Mode.USE)):
        await site.storage.runs.create(
            REPO, issue, asked_by=Login("ann"), delivery=f"d{issue}", mode=mode
        )
    page = (await site.read("/runs")).text
    queue = page.partition("<h2>Queue</h2>")[2].partition("</section>")[0]
    assert re.findall(r"shop#(\d)</a>\s*(?:<span class=\"small\">([\w-]+)</span>)?", queue) == [
        ("7", ""),
        ("8", "follow-up"),
        ("9", "use"),
    ]


@pytest.mark.parametrize("name", ["x", "0" * 32, "..%2f..", "%00"])
async def test_what_is_no_run_is_not_found(site: Site, name: str) -> None:
    assert (await site.read(f"/runs/{name}")).status_code == 404


async def test_a_record_that_cannot_be_read_is_not_found_and_hides_no_other(site: Site) -> None:
    run, _ = await site.begin()
    await site.storage.redis.sadd(site.storage.keys.active, "f" * 32)  # pyright: ignore[reportGeneralTypeIssues] - typed as maybe sync
    await site.storage.redis.set(site.storage.keys.run(RunId("f" * 32)), "{}")
    await site.storage.redis.set(site.storage.keys.run(run.id, "progress"), "{")
    assert (await site.read(f"/runs/{'f' * 32}")).status_code == 404
    assert run.id in (await site.read("/runs")).text
    assert (await site.read(f"/runs/{run.id}")).status_code == 200


async def test_programs_read_the_same_list_as_json(site: Site) -> None:
    first, lease = await site.begin()
    second, _ = await site.begin(8)
    ended = {"status": RunStatus.NO_FIX, "no_fix": "no reproduction", "dollars": 1.5}
    await lease.finish(replace(first, **ended))
    rows = (await site.read("/api/runs")).json()
    assert (rows["found"], rows["page"], rows["pages"]) == (2, 1, 1)
    by_id = {row["id"]: row for row in rows["runs"]}
    assert by_id[first.id]["reason"] == "no reproduction"
    assert (by_id[first.id]["dollars"], by_id[second.id]["dollars"]) == (1.5, 0)
    some = (await site.read("/api/runs?state=no+fix")).json()
    assert [row["id"] for row in some["runs"]] == [first.id]
    schema = (await site.client.get("/schema/runs.json")).json()
    row = schema["$defs"]["RunRow"]
    assert set(row["required"]) == row["properties"].keys() == by_id[first.id].keys()


async def test_metrics_count_runs_money_and_webhooks_and_name_nobody(site: Site) -> None:
    await deliver(site.client, labeled())
    await deliver(site.client, labeled(), headers={"X-Hub-Signature-256": "no"})
    first, lease = await site.begin(8, starts=1, started_at=AT, status=RunStatus.RUNNING)
    ended = {"status": RunStatus.NO_FIX, "dollars": 1.25, "finished_at": AT.replace(minute=5)}
    await lease.finish(replace(lease.run, **ended))
    answer = await site.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    oldest = re.search(r"^capuchin_queue_oldest_seconds (\S+)", answer.text, re.M)
    assert oldest is not None
    assert float(oldest[1]) >= 0
    assert_snapshot("metrics", answer.text.replace(f" {oldest[1]}\n", " AGE\n", 1))
    assert first.repo.name not in answer.text


async def test_pages_without_redis_say_so(settings: Settings) -> None:
    lost = replace(settings, redis_url="redis://127.0.0.1:9/0")
    async with serving(create_app(lost)) as client:
        for path in ("/runs", "/runs/" + "0" * 32):
            answer = await client.get(path, headers=OPERATOR)
            assert (answer.status_code, answer.text[:5]) == (503, "Redis")
        assert "capuchin_redis_up 0" in (await client.get("/metrics")).text


async def test_the_key_of_a_run_opens_its_stream_and_its_bundle_and_no_other(site: Site) -> None:
    run, lease = await site.begin()
    other, _ = await site.begin(8)
    await save_end(site.storage.checkpoints(run.id), a_selection())
    key = site.address(run).partition("?")[2]
    for end in ("events", "run.tar.zst"):
        assert (await site.client.get(f"/runs/{run.id}/{end}")).status_code == 401
        assert (await site.client.get(f"/runs/{other.id}/{end}?{key}")).status_code == 401
    assert (await site.client.get(f"/runs/{run.id}/run.tar.zst?{key}")).status_code == 404
    await lease.finish(replace(run, status=RunStatus.OPENED_PULL_REQUEST))
    stream = await site.client.get(f"/runs/{run.id}/events?{key}")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text == "event: end\ndata:\n\n"
    bundle = await site.client.get(f"/runs/{run.id}/run.tar.zst?{key}")
    assert "attachment" in bundle.headers["content-disposition"]
    assert bundle.content.startswith(b"\x28\xb5\x2f\xfd"), "the magic number of zstandard"


async def test_other_runs_of_the_issue_are_links_for_the_operator_only(site: Site) -> None:
    first, lease = await site.begin()
    await lease.finish(replace(first, status=RunStatus.NO_FIX, comment_id=5))
    asked = await site.storage.runs.create(REPO, 7, asked_by=Login("ann"), delivery="again")
    second = await site.storage.runs.get(asked.run_id)
    assert second is not None
    shown = await site.page(second)
    assert "https://github.com/acme/shop/issues/7#issuecomment-5" in shown
    assert first.id not in shown
    shown = (await site.read(f"/runs/{second.id}")).text
    assert f'href="{first.id}"' in shown


async def test_the_list_is_narrowed_by_repository_state_person_and_day(site: Site) -> None:
    first, lease = await site.begin()
    second, _ = await site.begin(8)
    ended = {"status": RunStatus.NO_FIX, "finished_at": now(), "started_at": now()}
    await lease.finish(replace(first, **ended))

    async def found(query: str) -> set[str]:
        page = (await site.read(f"/runs?{query}")).text
        return {run.id for run in (first, second) if f'href="runs/{run.id}"' in page}

    both = {first.id, second.id}
    assert await found("repository=ACME/shop&person=%40%3CB%3Eann&day=2026-01-02") == both
    assert await found("state=no+fix") == {first.id}
    assert await found("repository=other") == set()
    assert await found("person=bob") == set()
    assert await found("day=2026-01-03") == set()
    assert await found("day=%3Cscript%3E&page=%C2%B2&state=") == both
    page = (await site.read("/runs")).text
    assert "0 of 1" in page
    assert page.count('role="img"') == 3


async def test_a_visitor_with_one_link_makes_two_pages_at_a_time_and_an_ended_one_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, lease = await site.begin()
    rendered, go_on = 0, asyncio.Event()
    real = Pages.render_run

    async def render(*args: Any, **kwargs: Any) -> str:
        nonlocal rendered
        rendered += 1
        await go_on.wait()
        return await real(*args, **kwargs)

    monkeypatch.setattr(Pages, "render_run", render)
    link = site.address(run)
    under_way = [asyncio.create_task(site.client.get(link)) for _ in range(2)]
    while rendered < 2:
        await asyncio.sleep(0.01)
    third = asyncio.create_task(site.client.get(link))
    await asyncio.wait([third])  # at most as long as the client waits for an answer
    go_on.set()
    assert third.exception() is None
    assert (await third).status_code == 503
    assert [(await each).status_code for each in under_way] == [200, 200]
    await lease.finish(replace(run, status=RunStatus.FAILED, failure=Failure.INTERNAL))
    pages = [(await site.client.get(link)).text for _ in range(3)]
    assert (rendered, len(set(pages))) == (3, 1)
