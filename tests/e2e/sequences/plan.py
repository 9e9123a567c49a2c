"""What happens in one sequence, as data: made from a seed, and cut down to what matters."""

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

ISSUES: Final = 3
"""At most, of one sequence."""


class Act(NamedTuple):
    """One step. What cannot be done when it comes up is left out."""

    what: str
    issue: int = 0
    """Index of the issue."""
    pick: int = 0
    """Which one, of however many there are then."""
    word: str = ""
    who: str = "alice"
    seconds: int = 1
    """How much time passes before it."""


class Plan(NamedTuple):
    """A sequence."""

    seed: int
    fixes: bool
    """The pipeline finds a fix, not none."""
    acts: tuple[Act, ...]

    def __str__(self) -> str:
        said = "\n".join(f"  {act!r}," for act in self.acts)
        return f"Plan(seed={self.seed}, fixes={self.fixes}, acts=(\n{said}\n))"


WEIGHTS: Final[Mapping[str, int]] = {
    # people
    "label": 10, "unlabel": 4, "close": 3, "reopen": 4, "say": 8, "edit comment": 1,
    "edit issue": 1, "assign": 1, "delete status": 1, "delete comment": 1,
    "delete issue": 1, "transfer": 1, "uninstall": 1, "install": 2,
    # people, at pull requests of ours
    "review": 5, "say on pull": 2, "push": 2, "close pull": 2, "merge": 2, "label pull": 1,
    # another App
    "ci": 2,
    # the network
    "deliver": 26, "redeliver": 5, "lose": 4, "github fails": 2,
    "github is away": 1, "github is back": 2, "github limits": 1,
    # workers
    "begin": 12, "finish": 10, "kill": 4, "hand over": 2, "die": 3, "command": 10,
    "command dies": 2, "sweep": 3, "look after": 2,
}  # fmt: skip
WORDS: Final = ("fix", "fix", "fix", "plan", "retry", "stop", "stop", "status", "help", "fxi")
PEOPLE: Final = ("alice", "alice", "alice", "alice", "tina", "mallory")
SUFFIXES: Final = ("", "", "", ":auto", ":dry-run")


def plan(seed: int) -> Plan:
    """The sequence of a seed: it begins with something asked for, and mixes the rest."""
    dice = random.Random(seed)
    count = dice.randint(6, 22)
    first = Act(dice.choice(("label", "label", "say")), who="alice", word="fix")
    drawn = dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)
    acts = [first if first.what == "say" else first._replace(word="")]
    acts += [_act(what, dice) for what in drawn]
    return Plan(seed, dice.random() < 0.3, tuple(acts))


def _act(what: str, dice: random.Random) -> Act:
    labels = what in ("label", "unlabel")
    return Act(
        what,
        issue=min(dice.randrange(ISSUES), dice.randrange(ISSUES)),
        pick=dice.randrange(12),
        word=dice.choice(SUFFIXES if labels else WORDS),
        who=dice.choice(PEOPLE),
        seconds=dice.choice((1, 1, 2, 5, 30, 90)),
    )


async def shrunk(plan: Plan, fails: Callable[[Plan], Awaitable[bool]]) -> Plan:
    """A plan that still fails, from which no single step can be left out."""
    size = max(1, len(plan.acts) // 2)
    while True:
        for start in range(0, len(plan.acts), size):
            shorter = plan._replace(acts=plan.acts[:start] + plan.acts[start + size :])
            if shorter.acts and await fails(shorter):
                plan = shorter
                break
        else:
            if size == 1:
                return plan
            size //= 2
