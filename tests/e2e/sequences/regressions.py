"""Sequences that once came to a wrong end, cut down; and those in which GitHub is long away."""

from __future__ import annotations

from typing import Final

from tests.e2e.sequences.plan import Act


def label(word: str = "", seconds: int = 1) -> Act:
    return Act("label", word=word, seconds=seconds)


def say(word: str, seconds: int = 1, issue: int = 0) -> Act:
    return Act("say", word=word, seconds=seconds, issue=issue)


TOLD: Final = Act("deliver", pick=-1)
"""The latest webhook arrives."""
LOST: Final = Act("lose", pick=-1)

FOUND: Final = {
    "a stop before the first start takes the label off": (label(), say("stop", seconds=2)),
    "a close that is told late does not drop what was asked for after it": (
        say("fix"),
        Act("close", seconds=30),
        say("fix", seconds=90),
    ),
    "a label that waits and is found by the sweep is one run": (
        label(),
        TOLD,
        Act("begin"),
        label(":auto", seconds=90),
        TOLD,
        Act("finish"),
        Act("sweep"),
    ),
    "a label that is told again during another run was answered": (
        label(":dry-run"),
        TOLD,
        Act("begin"),
        Act("finish"),
        say("fix"),
        TOLD,
        Act("command"),
        Act("redeliver"),
    ),
    "a label that waited is not told again when its turn has come": (
        label(),
        TOLD,
        Act("begin"),
        label(":auto", seconds=30),
        TOLD,
        Act("finish"),
        Act("redeliver", pick=1),
    ),
    "another label off does not drop the label that waits": (
        label(),
        TOLD,
        label(":auto", seconds=5),
        TOLD,
        Act("unlabel", seconds=5),
        TOLD,
    ),
    "a label that the sweep finds during a run of another kind is not forgotten": (
        label(":dry-run"),
        TOLD,
        Act("begin"),
        label(":auto", seconds=30),
        LOST,
        Act("sweep", seconds=30),
    ),
    "what waits when all is stopped loses its label": (
        label(),
        TOLD,
        Act("begin"),
        label(":auto", seconds=2),
        TOLD,
        say("stop", seconds=2),
    ),
    "a stop that comes late does not end what was asked for after it": (
        say("stop"),
        say("fix", seconds=30),
        TOLD,
        Act("command"),
        Act("begin"),
        Act("deliver", pick=3),
        Act("command"),
    ),
    "a close before the first start takes the label off": (
        label(),
        TOLD,
        Act("close"),
        TOLD,
        Act("begin"),
        Act("reopen"),
    ),
    "the label that we take off ourselves stops nothing": (
        label(":dry-run", seconds=5),
        TOLD,
        Act("sweep", seconds=5),
        Act("die", pick=5, seconds=30),
    ),
    "a command whose webhook never came is found": (say("fix"), LOST, Act("sweep", seconds=90)),
    "a label that another run took off is answered by that one": (
        Act("sweep"),
        say("fix"),
        label(seconds=30),
        Act("deliver", pick=3),
        Act("assign", seconds=5),
        Act("command", seconds=30),
        Act("begin", seconds=90),
        TOLD,
    ),
    "the end of a dry run takes no label off that asks for a fix": (
        label(),
        say("plan", seconds=90),
        TOLD,
        Act("command"),
        Act("begin", seconds=5),
        TOLD,
    ),
    "a person's push before the worker is back makes no second pull request": (
        label(),
        TOLD,
        Act("die", pick=3),
        Act("push"),
    ),
    "a pull request whose worker died with its issue deleted is looked after": (
        say("fix"),
        TOLD,
        Act("command"),
        Act("die", pick=3),
        Act("delete issue"),
    ),
    "a label on a closed issue is not said to be off": (
        label(),
        Act("close"),
        Act("unlabel", seconds=5),
        label(":auto", seconds=5),
        TOLD,
        TOLD,
        Act("begin"),
    ),
    "a pull request whose worker died and that was stopped too late is looked after": (
        label(),
        TOLD,
        Act("die", pick=3),
        say("stop"),
        TOLD,
    ),
    "a stop that comes late does not end a run that a later label joined": (
        label(),
        TOLD,
        say("stop", seconds=5),
        Act("unlabel", seconds=90),
        label(seconds=30),
        TOLD,
    ),
    "a label that comes while a stop is under way waits for its end": (
        label(),
        TOLD,
        say("stop", seconds=5),
        TOLD,
        Act("command"),
        Act("unlabel", seconds=30),
        label(seconds=30),
        TOLD,
    ),
    "a stop takes no label off that was put on after it": (
        label(),
        TOLD,
        say("plan", seconds=30),
        say("stop"),
        label(":dry-run", seconds=30),
    ),
    "a late word of a label taken off stops nothing while GitHub is away": (
        label(),
        Act("unlabel", seconds=5),
        label(seconds=5),
        TOLD,
        Act("github is away"),
        TOLD,
        Act("begin"),
    ),
}
"""What the generated ones have found, cut down."""

AWAY: Final = Act("github is away")
LIMITED: Final = Act("github limits", pick=3)
LIMITED_TOO: Final = Act("github limits", pick=2)
"""The secondary limit."""
RIDDEN_OUT: Final = {
    "away before the run": (label(), TOLD, AWAY, Act("begin")),
    "away during the run": (label(), TOLD, Act("begin"), AWAY, Act("finish")),
    "away when a command comes": (say("fix"), TOLD, AWAY, Act("command")),
    "away when the sweep looks": (label(), LOST, AWAY, Act("sweep")),
    "limited during the run": (label(), TOLD, LIMITED, Act("begin"), Act("finish")),
    "limited too often during the run": (label(), TOLD, LIMITED_TOO, Act("begin"), Act("finish")),
    "limited when the sweep looks": (say("fix"), LOST, LIMITED_TOO, Act("sweep")),
    "limited when a command comes": (say("fix"), TOLD, LIMITED_TOO, Act("command")),
}
"""Ten minutes each."""
