"""What a stopping worker waits for."""

from __future__ import annotations

import asyncio

from bot.storage.draining import Steps


async def test_with_nothing_under_way_it_is_drained() -> None:
    async with asyncio.timeout(60):
        await Steps().drained()


async def test_a_paid_step_under_way_is_waited_for_and_none_begins_after_it() -> None:
    steps = Steps()
    ends = asyncio.Event()
    log: list[str] = []

    async def run() -> None:
        async with steps.paid():
            log.append("first begins")
            await ends.wait()
        with steps.short():
            log.append("saved")
        async with steps.paid():
            log.append("second begins")

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    draining = asyncio.create_task(steps.drained())
    await asyncio.sleep(0.2)
    assert not draining.done()
    ends.set()
    async with asyncio.timeout(60):
        await draining
    assert log == ["first begins", "saved"]
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_waiting_can_be_cut_short() -> None:
    steps = Steps()
    with steps.short():
        draining = asyncio.create_task(steps.drained())
        await asyncio.sleep(0)
        draining.cancel()
        await asyncio.wait([draining])
        assert draining.cancelled()


async def test_an_answer_that_is_not_saved_yet_is_waited_for() -> None:
    steps = Steps()
    reads = asyncio.Event()

    async def answered() -> None:
        async with steps.paid():
            pass
        await reads.wait()
        steps.saved()
        await asyncio.Event().wait()

    async def ends_unsaved() -> None:
        async with steps.paid():
            pass
        await reads.wait()

    running = [asyncio.create_task(answered()), asyncio.create_task(ends_unsaved())]
    await asyncio.sleep(0)
    draining = asyncio.create_task(steps.drained())
    await asyncio.sleep(0.3)
    assert not draining.done()
    reads.set()
    async with asyncio.timeout(60):
        await draining
    running[0].cancel()
    await asyncio.wait(running)
