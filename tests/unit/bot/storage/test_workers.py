"""What a worker lets end before it stops."""

import asyncio

from bot.storage.workers import InFlightWork


async def test_with_nothing_under_way_it_is_drained() -> None:
    async with asyncio.timeout(120):
        await InFlightWork().wait_until_idle()


async def test_a_paid_step_under_way_is_waited_for_and_none_begins_after_it() -> None:
    steps = InFlightWork()
    ends = asyncio.Event()
    log: list[str] = []

    async def run() -> None:
        async with steps.billable():
            log.append("first begins")
            await ends.wait()
        with steps.uncancellable():
            log.append("saved")
        async with steps.billable():
            log.append("second begins")

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    draining = asyncio.create_task(steps.wait_until_idle())
    await asyncio.sleep(0.2)
    assert not draining.done()
    ends.set()
    async with asyncio.timeout(120):
        await draining
    assert log == ["first begins", "saved"]
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_waiting_can_be_cut_short() -> None:
    steps = InFlightWork()
    with steps.uncancellable():
        draining = asyncio.create_task(steps.wait_until_idle())
        await asyncio.sleep(0)
        draining.cancel()
        await asyncio.wait([draining])
        assert draining.cancelled()


async def test_an_answer_that_is_not_saved_yet_is_waited_for() -> None:
    steps = InFlightWork()
    reads = asyncio.Event()

    async def answered() -> None:
        async with steps.billable():
            pass
        await reads.wait()
        steps.mark_saved()
        await asyncio.Event().wait()

    async def ends_unsaved() -> None:
        async with steps.billable():
            pass
        await reads.wait()

    running = [asyncio.create_task(answered()), asyncio.create_task(ends_unsaved())]
    await asyncio.sleep(0)
    draining = asyncio.create_task(steps.wait_until_idle())
    await asyncio.sleep(0.3)
    assert not draining.done()
    reads.set()
    async with asyncio.timeout(120):
        await draining
    running[0].cancel()
    await asyncio.wait(running)
