"""What labels, assignments and comments on issues ask for, and comments on pull requests.

Of an edited comment only a command counts that was not there before.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import AliasPath, BaseModel, Field

from bot.data.request import (
    AnyRequest,
    CommandRequest,
    Delay,
    IssueRemark,
    PullUpdate,
    RunRequest,
    StopRequest,
)
from bot.data.run import CommentLocation, IssueVersion, Mode, StopReason
from bot.webhooks.command_text import parse_command
from bot.webhooks.payload import AccountPart, Delivery, LabelPayload, Payload


class _IssuePart(BaseModel):
    number: int = Field(gt=0)
    title: str = ""
    body: str | None = None
    updated_at: datetime | None = None
    pull_request: dict[str, Any] | None = None

    @property
    def version(self) -> IssueVersion:
        """The text at the time of the event, which is what its sender had read."""
        return IssueVersion(title=self.title, body=self.body or "", at=self.updated_at)


class _IssuePayload(Payload):
    issue: _IssuePart

    def _to_run_request(
        self, delivery: Delivery, mode: Mode = Mode.FIX, label: str = ""
    ) -> RunRequest:
        return RunRequest(
            repo=self.repo,
            issue=self.issue.number,
            asked_by=self.sender.login,
            delivery=delivery.id,
            mode=mode,
            label=label,
            version=self.issue.version,
        )

    def _to_stop_request(self, delivery: Delivery, why: StopReason, label: str = "") -> StopRequest:
        return StopRequest(
            repo=self.repo,
            issue=self.issue.number,
            by=self.sender.login,
            why=why,
            label=label,
            at=self.issue.updated_at,
            delivery=delivery.id,
        )


class _IssueLabeled(LabelPayload, _IssuePayload):
    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        if opt_out := self.to_opt_out(delivery, self.issue.number):
            return opt_out
        mode = delivery.names.labels.mode_of(self.label_name)
        if mode is None or delivery.names.is_app(self.sender.login):
            return None
        return self._to_run_request(delivery, mode, self.label_name)


class _IssueUnlabeled(LabelPayload, _IssuePayload):
    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        # The bot itself removes the label when a run is over.
        ours = delivery.names.is_app(self.sender.login)
        if ours or delivery.names.labels.mode_of(self.label_name) is None:
            return None
        return self._to_stop_request(delivery, StopReason.UNLABELED, self.label_name)


class _IssueAssigned(_IssuePayload):
    assignee: AccountPart | None = None

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        assignee = self.assignee.login if self.assignee else ""
        if self.sender.is_bot or not delivery.names.is_app(assignee):
            return None
        return self._to_run_request(delivery)


class _IssueClosed(_IssuePayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_stop_request(delivery, StopReason.CLOSED)


class _IssueGone(_IssuePayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_stop_request(delivery, StopReason.GONE)


class _CommentPart(BaseModel):
    id: int
    body: str | None = None
    created_at: datetime
    updated_at: datetime | None = None
    user: AccountPart | None = None


class _CommentPayload(Payload):
    comment: _CommentPart
    action: str = ""
    old_body: str | None = Field(
        default=None, validation_alias=AliasPath("changes", "body", "from")
    )

    @property
    def author(self) -> AccountPart:
        return self.comment.user or self.sender

    @property
    def is_by_bot(self) -> bool:
        return self.author.is_bot or self.sender.is_bot

    def to_command(
        self,
        delivery: Delivery,
        issue: int,
        location: CommentLocation,
        version: IssueVersion | None = None,
    ) -> CommandRequest | None:
        """The command in the comment; None for none, and for one that an edit left as it was.

        Others than its author may edit a comment: what they write in is theirs.
        """
        comment, names = self.comment, delivery.names.called
        command, before = parse_command(comment.body or "", *names), None
        if self.is_edited:
            if command is None or not command.begins_line or self.old_body is None:
                return None
            before = parse_command(self.old_body, *names)
            if before is not None and before.says_same(command):
                return None
        if command is None:
            return None
        return CommandRequest(
            repo=self.repo,
            issue=issue,
            location=location,
            comment=comment.id,
            by=self.sender.login if self.is_edited else self.author.login,
            at=(comment.updated_at if self.is_edited else None) or comment.created_at,
            command=command,
            replaces=before is not None,
            version=version,
            delivery=delivery.id,
        )

    @property
    def is_edited(self) -> bool:
        return self.action == "edited"


class _IssueComment(_CommentPayload):
    issue: _IssuePart

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        if self.is_by_bot:
            return None
        issue = self.issue
        if issue.pull_request is not None:
            return self.to_command(delivery, issue.number, CommentLocation.PULL)
        place = CommentLocation.ISSUE
        order = self.to_command(delivery, issue.number, place, issue.version)
        if order is not None or self.is_edited:
            return order
        return IssueRemark(
            repo=self.repo,
            issue=issue.number,
            remark=self.comment.id,
            by=self.author.login,
            at=self.comment.created_at,
            delivery=delivery.id,
        )


class _ReviewComment(_CommentPayload):
    number: int = Field(gt=0, validation_alias=AliasPath("pull_request", "number"))

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        if self.is_by_bot:
            return None
        order = self.to_command(delivery, self.number, CommentLocation.REVIEW)
        if order is not None or self.is_edited:
            return order
        return PullUpdate(
            repo=self.repo,
            target="pull",
            number=self.number,
            delay=Delay.DEBOUNCED,
            by=self.author.login,
            comment=self.comment.id,
            delivery=delivery.id,
        )


PAYLOADS: Final[Mapping[str, Mapping[str, type[Payload]]]] = {
    "issues": {
        "labeled": _IssueLabeled,
        "unlabeled": _IssueUnlabeled,
        "assigned": _IssueAssigned,
        "closed": _IssueClosed,
        "deleted": _IssueGone,
        "transferred": _IssueGone,
    },
    "issue_comment": {"created": _IssueComment, "edited": _IssueComment},
    "pull_request_review_comment": {"created": _ReviewComment, "edited": _ReviewComment},
}
