"""Whether an event asks for something. Pure: who may ask is looked up by whoever does it.

A new trigger is one function here and one line in `DECIDERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bot.events import (
    BaseMoved,
    CheckAgain,
    ChecksEnded,
    Commented,
    Event,
    Happened,
    Ignored,
    IssueAssigned,
    IssueClosed,
    IssueGone,
    IssueLabeled,
    IssueUnlabeled,
    PullChanged,
    PullLabeled,
    PullPushed,
    Reviewed,
    StatusSet,
)
from bot.settings import Settings
from bot.triggers.command_text import parse
from bot.triggers.labels import OPT_OUT, SUFFIXES
from bot.triggers.requests import Halt, Inspect, Order, Pace, Start, Tend, Wish
from bot.types import CHECK_NAME as SETTINGS_CHECK
from bot.types import Mode, Place, StopReason


@dataclass(frozen=True)
class Names:
    """What we are called by. GitHub ignores case in all of it."""

    label: str
    app: str
    """As in `/capuchin` and `@capuchin`."""
    assignee: str = ""
    """An account that issues are assigned to for us; empty: none is."""

    @classmethod
    def of(cls, settings: Settings) -> Names:
        return cls(label=settings.label, app=settings.app_name, assignee=settings.assignee)

    @property
    def labels(self) -> dict[str, Mode]:
        """Each label that asks for a run, as the operator spelled it, with what it asks for."""
        return {self.label + suffix: mode for mode, suffix in SUFFIXES.items()}

    def mode_of(self, label: str) -> Mode | None:
        """What a label asks for; None for one that is not ours."""
        known = {ours.casefold(): mode for ours, mode in self.labels.items()}
        return known.get(label.casefold())

    def keeps_away(self, label: str) -> bool:
        return label.casefold() == (self.label + OPT_OUT).casefold()


def decide(event: Event, names: Names) -> Wish | Ignored:
    """What the event asks for."""
    if isinstance(event, Ignored):
        return event
    decider = DECIDERS.get(type(event))
    return decider(event, names) if decider else Ignored(reason="nothing asks for it")


def _labeled(event: IssueLabeled, names: Names) -> Wish | Ignored:
    if names.keeps_away(event.label):  # whoever put it on: it is looked at, not who
        return _kept_away(event, event.issue)
    mode = names.mode_of(event.label)
    if mode is None:
        return Ignored(reason="another label")
    if event.by_bot:
        return Ignored(reason="a bot's label")
    return _start(event, mode, event.label)


def _pull_labeled(event: PullLabeled, names: Names) -> Wish | Ignored:
    if not names.keeps_away(event.label):
        return Ignored(reason="another label")
    return _kept_away(event, event.pull)


def _kept_away(event: IssueLabeled | PullLabeled, number: int) -> Halt:
    return Halt(
        repo=event.repo,
        issue=number,
        by=event.actor,
        why=StopReason.DISABLED,
        label=event.label,
        delivery=event.delivery,
    )


def _assigned(event: IssueAssigned, names: Names) -> Wish | Ignored:
    wanted = {names.assignee.casefold()} if names.assignee else set[str]()
    if event.assignee.casefold() not in wanted | {f"{names.app}[bot]".casefold()}:
        return Ignored(reason="somebody else")
    if event.by_bot:
        return Ignored(reason="a bot's assignment")
    return _start(event)


def _start(event: IssueLabeled | IssueAssigned, mode: Mode = Mode.FIX, label: str = "") -> Start:
    return Start(
        repo=event.repo,
        issue=event.issue,
        asked_by=event.actor,
        delivery=event.delivery,
        mode=mode,
        label=label,
        version=event.version,
    )


def _unlabeled(event: IssueUnlabeled, names: Names) -> Wish | Ignored:
    if names.mode_of(event.label) is None:
        return Ignored(reason="another label")
    if event.by_bot:  # we take it off ourselves when a run is over
        return Ignored(reason="a bot's label")
    return _halt(event, StopReason.UNLABELED, event.label)


def _ended(why: StopReason) -> Callable[[IssueClosed | IssueGone, Names], Wish | Ignored]:
    def ended(event: IssueClosed | IssueGone, names: Names) -> Wish | Ignored:
        del names
        return _halt(event, why)

    return ended


def _halt(
    event: IssueUnlabeled | IssueClosed | IssueGone, why: StopReason, label: str = ""
) -> Halt:
    return Halt(
        repo=event.repo,
        issue=event.issue,
        by=event.actor,
        why=why,
        label=label,
        at=event.at,
        delivery=event.delivery,
    )


def _commented(event: Commented, names: Names) -> Wish | Ignored:
    if event.by_bot:
        return Ignored(reason="a bot's comment")
    command = parse(event.text, names.app)
    if command is None and event.place is Place.REVIEW:
        return _tend(event, event.issue, Pace.QUIET)
    if command is None:
        return Ignored(reason="no command")
    return Order(
        repo=event.repo,
        issue=event.issue,
        place=event.place,
        comment=event.comment,
        by=event.actor,
        at=event.at,
        command=command,
        version=event.version,
        delivery=event.delivery,
    )


def _pushed(event: PullPushed, names: Names) -> Wish | Ignored:
    del names
    return Inspect(repo=event.repo, pull=event.pull, head=event.head, delivery=event.delivery)


def _tend(event: Happened, pull: int, pace: Pace, *, again: bool = False) -> Tend:
    return Tend(
        repo=event.repo,
        about="pull",
        number=pull,
        pace=pace,
        again=again,
        by="" if event.by_bot else event.actor,
        delivery=event.delivery,
    )


def _reviewed(event: Reviewed, names: Names) -> Wish | Ignored:
    del names
    if event.by_bot:
        return Ignored(reason="a bot's review")
    return _tend(event, event.pull, Pace.QUIET)


def _followed(event: PullChanged | ChecksEnded, names: Names) -> Wish | Ignored:
    del names
    return _tend(event, event.pull, Pace.NOW)


def _again(event: CheckAgain, names: Names) -> Wish | Ignored:
    del names
    if event.check and event.check != SETTINGS_CHECK:
        return _tend(event, event.pull, Pace.NOW, again=True)
    return Inspect(
        repo=event.repo,
        pull=event.pull,
        head=event.head,
        again=True,
        evidence_too=not event.check,
        delivery=event.delivery,
    )


def _status_set(event: StatusSet, names: Names) -> Wish | Ignored:
    del names
    return Tend(repo=event.repo, about="branch", branches=event.branches, delivery=event.delivery)


def _moved(event: BaseMoved, names: Names) -> Wish | Ignored:
    del names
    return Tend(repo=event.repo, about="base", pace=Pace.SELDOM, delivery=event.delivery)


def also(wish: Wish) -> Tend | None:
    """What an event asks for beside `wish`: our own pull requests follow their issues and heads."""
    match wish:
        case Inspect():
            return Tend(
                repo=wish.repo,
                about="pull",
                number=wish.pull,
                again=wish.evidence_too,
                delivery=wish.delivery,
            )
        case Halt(why=StopReason.CLOSED):
            return Tend(repo=wish.repo, about="issue", number=wish.issue, delivery=wish.delivery)
        case _:
            return None


Decider = Callable[[Any, Names], Wish | Ignored]

DECIDERS: Final[Mapping[type[Happened], Decider]] = {
    IssueLabeled: _labeled,
    IssueUnlabeled: _unlabeled,
    IssueAssigned: _assigned,
    IssueClosed: _ended(StopReason.CLOSED),
    IssueGone: _ended(StopReason.GONE),
    Commented: _commented,
    PullPushed: _pushed,
    PullLabeled: _pull_labeled,
    PullChanged: _followed,
    ChecksEnded: _followed,
    CheckAgain: _again,
    Reviewed: _reviewed,
    StatusSet: _status_set,
    BaseMoved: _moved,
}
