"""Whether a delivery asks for something, and for what. Pure.

A new trigger is one function here and one line in `DECIDERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bot.data.request import (
    AnyRequest,
    CommandRequest,
    ConfigCheckRequest,
    Delay,
    PullUpdate,
    RunRequest,
    StopRequest,
)
from bot.data.run import CHECK_NAME as SETTINGS_CHECK
from bot.data.run import CommentLocation, Login, Mode, StopReason
from bot.settings import Settings
from bot.webhooks import issue_events, pull_events
from bot.webhooks.command_text import parse_command
from bot.webhooks.issue_events import (
    CommentCreated,
    IssueAssigned,
    IssueClosed,
    IssueGone,
    IssueLabeled,
    IssueUnlabeled,
)
from bot.webhooks.labels import LabelSet
from bot.webhooks.payload import (
    Event,
    Ignored,
    Reader,
    RepositoryEvent,
    check_delivery,
    read_action,
)
from bot.webhooks.pull_events import (
    CheckRerequested,
    ChecksCompleted,
    CommitStatusChanged,
    DefaultBranchPushed,
    PullChanged,
    PullLabeled,
    PullPushed,
    ReviewSubmitted,
)
from sandbox.frozen import replace

READERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "issues": issue_events.READERS,
    "issue_comment": issue_events.ISSUE_COMMENT_READERS,
    "pull_request": pull_events.READERS,
    "pull_request_review": pull_events.REVIEW_READERS,
    "pull_request_review_comment": issue_events.REVIEW_COMMENT_READERS,
    "check_suite": pull_events.SUITE_READERS,
    "check_run": pull_events.CHECK_RUN_READERS,
    "push": {"": pull_events.read_push},
    "status": {"": pull_events.read_status},
}
"""By `X-GitHub-Event`, then by the payload's action: what reads it. Everything else is ignored.

An event without actions has one reader, under no name.
"""


def parse(name: str, delivery: str, body: bytes) -> Event:
    """The event in a body whose signature was checked.

    `name` is `X-GitHub-Event`, `delivery` is `X-GitHub-Delivery`.

    Raises:
        Malformed: the body of an event that is handled here lacks what GitHub documents.
    """
    readers = READERS.get(name)
    if readers is None:
        return Ignored(reason=f"event {name[:50]}")
    check_delivery(delivery)
    reader = readers.get("") or readers.get(read_action(name, body))
    return Ignored(reason="action") if reader is None else reader(delivery, body)


@dataclass(frozen=True)
class BotNames:
    """What we are called by. GitHub ignores case in all of it."""

    label: str
    app: str
    """As in `/capuchin` and `@capuchin`."""
    assignee: str = ""
    """An account that issues are assigned to for us; empty: none is."""

    @classmethod
    def of(cls, settings: Settings) -> BotNames:
        return cls(label=settings.label, app=settings.app_name, assignee=settings.assignee)

    @property
    def labels(self) -> LabelSet:
        return LabelSet(self.label)


def decide(event: Event, names: BotNames) -> AnyRequest | Ignored:
    """What the event asks for."""
    if isinstance(event, Ignored):
        return event
    decider = DECIDERS.get(type(event))
    return decider(event, names) if decider else Ignored(reason="nothing asks for it")


def _decide_labeled(event: IssueLabeled, names: BotNames) -> AnyRequest | Ignored:
    if names.labels.is_opt_out(event.label):  # no matter who added it
        return _to_opt_out(event, event.issue)
    mode = names.labels.mode_of(event.label)
    if mode is None:
        return Ignored(reason="another label")
    if event.by_bot:
        return Ignored(reason="a bot's label")
    return _to_run_request(event, mode, event.label)


def _decide_pull_labeled(event: PullLabeled, names: BotNames) -> AnyRequest | Ignored:
    if not names.labels.is_opt_out(event.label):
        return Ignored(reason="another label")
    return _to_opt_out(event, event.pull)


def _to_opt_out(event: IssueLabeled | PullLabeled, number: int) -> StopRequest:
    return StopRequest(
        repo=event.repo,
        issue=number,
        by=event.actor,
        why=StopReason.DISABLED,
        label=event.label,
        delivery=event.delivery,
    )


def _decide_assigned(event: IssueAssigned, names: BotNames) -> AnyRequest | Ignored:
    wanted = {names.assignee.casefold()} if names.assignee else set[str]()
    if event.assignee.casefold() not in wanted | {f"{names.app}[bot]".casefold()}:
        return Ignored(reason="somebody else")
    if event.by_bot:
        return Ignored(reason="a bot's assignment")
    return _to_run_request(event)


def _to_run_request(
    event: IssueLabeled | IssueAssigned, mode: Mode = Mode.FIX, label: str = ""
) -> RunRequest:
    return RunRequest(
        repo=event.repo,
        issue=event.issue,
        asked_by=event.actor,
        delivery=event.delivery,
        mode=mode,
        label=label,
        version=event.version,
    )


def _decide_unlabeled(event: IssueUnlabeled, names: BotNames) -> AnyRequest | Ignored:
    if names.labels.mode_of(event.label) is None:
        return Ignored(reason="another label")
    if event.by_bot:  # we take it off ourselves when a run is over
        return Ignored(reason="a bot's label")
    return _to_stop_request(event, StopReason.UNLABELED, event.label)


def _end_decider(
    why: StopReason,
) -> Callable[[IssueClosed | IssueGone, BotNames], AnyRequest | Ignored]:
    def decide_end(event: IssueClosed | IssueGone, names: BotNames) -> AnyRequest | Ignored:
        del names
        return _to_stop_request(event, why)

    return decide_end


def _to_stop_request(
    event: IssueUnlabeled | IssueClosed | IssueGone, why: StopReason, label: str = ""
) -> StopRequest:
    return StopRequest(
        repo=event.repo,
        issue=event.issue,
        by=event.actor,
        why=why,
        label=label,
        at=event.at,
        delivery=event.delivery,
    )


def _decide_comment(event: CommentCreated, names: BotNames) -> AnyRequest | Ignored:
    if event.by_bot:
        return Ignored(reason="a bot's comment")
    command = parse_command(event.text, names.app)
    if command is None and event.location is CommentLocation.REVIEW:
        update = _to_pull_update(event, event.issue, Delay.DEBOUNCED)
        return replace(update, comment=event.comment)
    if command is None:
        return Ignored(reason="no command")
    return CommandRequest(
        repo=event.repo,
        issue=event.issue,
        location=event.location,
        comment=event.comment,
        by=event.actor,
        at=event.at,
        command=command,
        version=event.version,
        delivery=event.delivery,
    )


def _decide_pushed(event: PullPushed, names: BotNames) -> AnyRequest | Ignored:
    del names
    return ConfigCheckRequest(
        repo=event.repo, pull=event.pull, head=event.head, delivery=event.delivery
    )


def _to_pull_update(
    event: RepositoryEvent, pull: int, delay: Delay, *, again: bool = False
) -> PullUpdate:
    return PullUpdate(
        repo=event.repo,
        target="pull",
        number=pull,
        delay=delay,
        again=again,
        by=Login("") if event.by_bot else event.actor,
        delivery=event.delivery,
    )


def _decide_review(event: ReviewSubmitted, names: BotNames) -> AnyRequest | Ignored:
    del names
    if event.by_bot:
        return Ignored(reason="a bot's review")
    return _to_pull_update(event, event.pull, Delay.DEBOUNCED)


def _decide_pull_changed(
    event: PullChanged | ChecksCompleted, names: BotNames
) -> AnyRequest | Ignored:
    del names
    return _to_pull_update(event, event.pull, Delay.IMMEDIATE)


def _decide_rerequest(event: CheckRerequested, names: BotNames) -> AnyRequest | Ignored:
    del names
    if event.check and event.check != SETTINGS_CHECK:
        return _to_pull_update(event, event.pull, Delay.IMMEDIATE, again=True)
    return ConfigCheckRequest(
        repo=event.repo,
        pull=event.pull,
        head=event.head,
        again=True,
        with_evidence=not event.check,
        delivery=event.delivery,
    )


def _decide_status(event: CommitStatusChanged, names: BotNames) -> AnyRequest | Ignored:
    del names
    return PullUpdate(
        repo=event.repo, target="branch", branches=event.branches, delivery=event.delivery
    )


def _decide_default_branch(event: DefaultBranchPushed, names: BotNames) -> AnyRequest | Ignored:
    del names
    return PullUpdate(
        repo=event.repo, target="base", delay=Delay.RATE_LIMITED, delivery=event.delivery
    )


def companion_update(request: AnyRequest) -> PullUpdate | None:
    """The second request of an event: our own pull requests follow their issues and heads."""
    match request:
        case ConfigCheckRequest():
            return PullUpdate(
                repo=request.repo,
                target="pull",
                number=request.pull,
                again=request.with_evidence,
                delivery=request.delivery,
            )
        case StopRequest(why=StopReason.CLOSED):
            return PullUpdate(
                repo=request.repo, target="issue", number=request.issue, delivery=request.delivery
            )
        case _:
            return None


Decider = Callable[[Any, BotNames], AnyRequest | Ignored]

DECIDERS: Final[Mapping[type[RepositoryEvent], Decider]] = {
    IssueLabeled: _decide_labeled,
    IssueUnlabeled: _decide_unlabeled,
    IssueAssigned: _decide_assigned,
    IssueClosed: _end_decider(StopReason.CLOSED),
    IssueGone: _end_decider(StopReason.GONE),
    CommentCreated: _decide_comment,
    PullPushed: _decide_pushed,
    PullLabeled: _decide_pull_labeled,
    PullChanged: _decide_pull_changed,
    ChecksCompleted: _decide_pull_changed,
    CheckRerequested: _decide_rerequest,
    ReviewSubmitted: _decide_review,
    CommitStatusChanged: _decide_status,
    DefaultBranchPushed: _decide_default_branch,
}
