"""`capuchin learn serve`: environments over HTTP, with real containers."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest

from bot.cli.lab.evaluate_grade import Workplace, Workplaces
from bot.cli.lab.learn_serve import Door, DoorLimits, build_app
from bot.server.connections import serve_app
from pipeline.codebase.commit import Codebase
from pipeline.concurrency import gather_all
from pipeline.lab.dataset import LocatedInstance, read_rows
from pipeline.lab.grading import GradedInstance, Grader, InstanceGrade
from pipeline.store import DirStore, Store, digest
from sandbox.layout import LABEL_RUN
from tests.e2e.shop import TILL
from tests.support.certificates import host_certificates
from tests.support.command_line import refused
from tests.support.door import IDS, Client, serve, write_instances
from tests.support.sandboxes import PassingSandbox

RIGHT, WRONG = (TILL.replace("a - b", there) for there in ("a + b", "abs(a - b)"))


async def attempt(door: Client, text: str) -> tuple[str, dict[str, Any]]:
    """One episode; its edit, and its reward by each kind of tests."""
    place = await door.reset()
    read = await door.ask(f"{place}/read", path="shop/till.py")
    assert read == {"text": TILL, "refused": ""}, "nothing of another episode is there"
    assert await door.ask(f"{place}/write", path="shop/till.py", text=text) == {"refused": ""}
    ran = await door.ask(
        f"{place}/run", command="python -m pytest -q; cat shop/till.py; echo 1 >shop/n"
    )
    assert (ran["exit_code"], ran["ending"], ran["refused"]) == (0, "exit", "")
    assert text in ran["output"]
    assert "test_total" not in ran["output"]
    assert (await door.ask(f"{place}/read", path="shop/n"))["text"] == "1\n"
    assert (await door.ask(f"{place}/write", path="shop/n", text=None))["refused"] == ""
    diff = (await door.ask(f"{place}/submit"))["diff"]
    assert (await door.ask(f"{place}/run", command="true"))["refused"]
    rewards = {by: await door.ask(f"{place}/grade", by=by) for by in ("issue", "hidden", "near")}
    assert "test_total" not in json.dumps(rewards)
    assert (await door.delete(place)).status_code == 204
    assert (await door.post(f"{place}/submit")).status_code == 404
    return diff, {by: one["reward"] for by, one in rewards.items()}


async def test_a_client_gets_the_reward_of_its_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    async with serve(await write_instances(tmp_path), tmp_path / "trees") as door:
        listed = (await door.get("/instances")).json()
        assert listed == list(IDS)
        right, wrong = await gather_all(attempt(door, text) for text in (RIGHT, WRONG))
        assert "+    return a + b" in right[0].splitlines()
        assert right[1] == {"issue": 1.0, "hidden": 1.0, "near": 1.0}
        assert "+    return abs(a - b)" in wrong[0].splitlines()
        assert wrong[1] == {"issue": 0.0, "hidden": 0.0, "near": 1.0}

        for name, status in (("no", 404), (IDS[1], 409), (IDS[2], 409)):
            refused = await door.post("/environments", json={"instance_id": name})
            assert refused.status_code == status
            assert "test_total" not in refused.text

        place = await door.reset()
        hook = (
            "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
            "def pytest_runtest_makereport():\n    outcome = yield\n"
            "    outcome.get_result().outcome = 'passed'\n"
        )
        for path in ("tests/conftest.py", "shop/conftest.py"):
            assert not (await door.ask(f"{place}/write", path=path, text=hook))["refused"]
        forged = await door.ask(f"{place}/grade", by="hidden")
        assert forged["reward"] == 0.0
        assert len(forged["forged"]) == 2
        place = await door.reset()
        slow = await door.ask(f"{place}/run", command="while :; do :; done", seconds=1)
        assert (slow["exit_code"], slow["ending"]) == (None, "timeout")
        long = await door.ask(f"{place}/run", command="yes | head -c 1000000")
        assert 20_000 < len(long["output"]) < 40_000
        for path, text in (("../x", ""), (".github/workflows/x.yml", "")):
            assert (await door.ask(f"{place}/write", path=path, text=text))["refused"]
        assert (await door.ask(f"{place}/read", path="/etc/passwd"))["refused"]
        body = {"path": "a", "text": "x" * 3_000_000}
        assert (await door.post(f"{place}/write", json=body)).status_code == 413
        rebound = await door.get("/instances", headers={"Host": "evil.example"})
        assert rebound.status_code == 400
        empty = await door.ask(f"{place}/grade", by="near")
        assert empty["reward"] == 0.0, "an edit that does nothing breaks nothing"
    runs = [f"{LABEL_RUN}=grade-{digest(name)[:16]}" for name in IDS]
    kept = [docker.from_env().containers.list(all=True, filters={"label": run}) for run in runs]
    assert kept == [[], [], []]


async def test_environments_are_few_and_idle_ones_are_closed(tmp_path: Path) -> None:
    rows = read_rows(await write_instances(tmp_path), GradedInstance)
    codebase = await Codebase.open(tmp_path / "trees/acme__shop.git", "HEAD")
    opened: list[str] = []

    class Place(Workplace):
        def build_grader(self, row: GradedInstance) -> Grader:
            async def grade(_: str) -> InstanceGrade:
                return InstanceGrade(instance_id=row.instance_id, resolved=True)

            return cast(Grader, SimpleNamespace(grade=grade))

    class Places(Workplaces):
        def __init__(self) -> None: ...

        @asynccontextmanager
        async def open(self, row: LocatedInstance, store: Store) -> AsyncGenerator[Workplace]:
            opened.append("open")
            yield Place(codebase, PassingSandbox(), store, row.instance_id)
            opened.append("closed")

        async def evict_images(self) -> None: ...

    limits = DoorLimits(open=2, idle_seconds=0.4)
    app = build_app(Door(rows, Places(), DirStore(tmp_path / "store"), limits), limits)
    async with serve_app(app, "127.0.0.1", 0) as url, Client(base_url=url) as door:
        first, second = await door.reset(), await door.reset()
        assert opened == ["open"], "they share the containers"
        full = await door.post("/environments", json={"instance_id": IDS[0]})
        assert (full.status_code, full.headers["retry-after"]) == (503, "10")
        while opened[-1] != "closed":
            await asyncio.sleep(0.05)
        for place in (first, second):
            assert (await door.post(f"{place}/submit")).status_code == 404
        await door.reset()
    assert opened == ["open", "closed", "open"]


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    path = asyncio.run(write_instances(tmp_path))
    for words in ([str(path), str(tmp_path / "no")], [str(path), str(tmp_path), "here"]):
        assert refused("learn", "serve", *words)
