"""Plays a plan on a world, lets all come to rest, and says what is wrong then."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.e2e.sequences.invariants import problems
from tests.e2e.sequences.people import People, picked
from tests.e2e.sequences.plan import Act, Plan
from tests.e2e.sequences.simulation import World

TEN_MINUTES: Final = 600
ROUNDS: Final = 25
"""By which all has come to rest."""


async def play(world: World, plan: Plan) -> list[str]:
    """The problems that are left at the end; none if all is well."""
    await world.fresh(fixes=plan.fixes)
    player = Player(world)
    for act in plan.acts:
        world.passes(act.seconds)
        await DOES[act.what](player, act)
        world.collect()
    await player.rest()
    return await problems(world, player.history)


class Player(People):
    """Does one act after the other; what cannot be done is left out."""

    async def rest(self) -> None:
        """All that is under way arrives, everything is done, and the sweep has looked."""
        quiet, looked = 0, False
        await self.world.away_for(TEN_MINUTES)
        for _ in range(ROUNDS):
            self.world.passes(61)
            await self._everything()
            if await self._active():
                quiet = 0
                continue
            saw_all = await self.world.sweep()
            if not looked:
                await self.world.look_after()
                looked = True
            self.world.collect()
            quiet = 0 if await self._active() or not saw_all else quiet + 1
            if quiet == 2:
                return

    async def _active(self) -> bool:
        world = self.world
        return bool(
            world.pending or await world.runs.list_active() or await world.inbox.count_requests()
        )

    async def _everything(self) -> None:
        world = self.world
        world.collect()
        while world.pending:
            await world.deliver(world.pending.pop())
        for run_id in list(world.workers.at_work):
            if run_id in world.workers.at_work:
                await world.workers.finish(run_id)
        for _ in range(await world.inbox.count_requests()):
            await world.command()
        for run in await world.workers.idle():
            await world.workers.begin(run)

    # The network

    async def deliver(self, act: Act) -> None:
        world = self.world
        delivery = picked(world.pending, act)
        if delivery is not None:
            world.pending.remove(delivery)
            world.delivered.append(delivery)
            await world.deliver(delivery)

    async def redeliver(self, act: Act) -> None:
        delivery = picked(self.world.delivered, act)
        if delivery is not None:
            await self.world.deliver(delivery)

    async def lose(self, act: Act) -> None:
        delivery = picked(self.world.pending, act)
        if delivery is not None:
            self.world.pending.remove(delivery)

    async def github_fails(self, act: Act) -> None:
        method, path = (
            ("POST", "/repos/*/issues/*/comments"),
            ("PATCH", "/repos/*/issues/comments/*"),
            ("GET", "/repos/*/issues/*"),
            ("POST", "/repos/*/pulls"),
            ("DELETE", "/repos/*/issues/*/labels/*"),
            ("GET", "/repos/*/collaborators/*"),
            ("POST", "/repos/*/check-runs"),
            ("GET", "/repos/*/pulls/*"),
        )[act.pick % 8]
        times = 1 + act.pick // 3
        self.hub.faults.fail_next(method, path, times=times, after_effect=act.pick % 2 == 0)

    async def github_is_away(self, act: Act) -> None:
        self.hub.faults.down = True

    async def github_is_back(self, act: Act) -> None:
        self.hub.faults.down = False

    async def github_limits(self, act: Act) -> None:
        self.hub.limit_rate(act.pick, TEN_MINUTES, secondary=act.pick % 2 == 0)

    # Workers

    async def begin(self, act: Act) -> None:
        run = picked(await self.world.workers.idle(), act)
        if run is not None:
            await self.world.workers.begin(run)

    async def finish(self, act: Act) -> None:
        run_id = picked(list(self.world.workers.at_work), act)
        if run_id is not None:
            await self.world.workers.finish(run_id)

    async def kill(self, act: Act) -> None:
        run_id = picked(list(self.world.workers.at_work), act)
        if run_id is not None:
            await self.world.workers.kill(run_id)

    async def hand_over(self, act: Act) -> None:
        run_id = picked(list(self.world.workers.at_work), act)
        if run_id is not None:
            await self.world.workers.hand_over(run_id)

    async def die(self, act: Act) -> None:
        run = picked(await self.world.workers.idle(), act)
        if run is not None:
            await self.world.workers.begin_and_die(run, 1 + act.pick)

    async def command(self, act: Act) -> None:
        await self.world.command()

    async def command_dies(self, act: Act) -> None:
        await self.world.command(dies_after=1 + act.pick % 4)

    async def sweep(self, act: Act) -> None:
        await self.world.sweep()

    async def look_after(self, act: Act) -> None:
        await self.world.look_after()


DOES: Final[Mapping[str, Callable[[Player, Act], Awaitable[None]]]] = {
    "label": Player.label,
    "unlabel": Player.unlabel,
    "close": Player.close,
    "reopen": Player.reopen,
    "say": Player.say,
    "edit comment": Player.edit_comment,
    "edit issue": Player.edit_issue,
    "assign": Player.assign,
    "delete status": Player.delete_status,
    "delete comment": Player.delete_comment,
    "delete issue": Player.delete_issue,
    "transfer": Player.transfer,
    "uninstall": Player.uninstall,
    "install": Player.install,
    "review": Player.review,
    "say on pull": Player.say_on_pull,
    "push": Player.push,
    "close pull": Player.close_pull,
    "merge": Player.merge,
    "label pull": Player.label_pull,
    "ci": Player.ci,
    "deliver": Player.deliver,
    "redeliver": Player.redeliver,
    "lose": Player.lose,
    "github fails": Player.github_fails,
    "github is away": Player.github_is_away,
    "github is back": Player.github_is_back,
    "github limits": Player.github_limits,
    "begin": Player.begin,
    "finish": Player.finish,
    "kill": Player.kill,
    "hand over": Player.hand_over,
    "die": Player.die,
    "command": Player.command,
    "command dies": Player.command_dies,
    "sweep": Player.sweep,
    "look after": Player.look_after,
}
