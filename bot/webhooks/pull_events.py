"""What reviews, checks, labels and pushes ask for."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pydantic import AliasPath, BaseModel, Field

from bot.data.request import AnyRequest, CommandRequest, ConfigCheckRequest, Delay, PullUpdate
from bot.data.run import CHECK_NAME as SETTINGS_CHECK
from bot.data.run import CommentLocation, Login
from bot.webhooks.command_text import parse_command
from bot.webhooks.payload import AccountPart, Delivery, LabelPayload, Payload
from pipeline.data.types import CommitSha
from sandbox.frozen import replace

_SHA: Final = r"^[0-9a-f]{40,64}$"


def _update_pull(
    payload: Payload,
    delivery: Delivery,
    number: int,
    delay: Delay = Delay.IMMEDIATE,
    *,
    others: tuple[int, ...] = (),
    again: bool = False,
) -> PullUpdate:
    return PullUpdate(
        repo=payload.repo,
        target="pull",
        number=number,
        others=others,
        delay=delay,
        again=again,
        by=Login("") if payload.sender.is_bot else payload.sender.login,
        delivery=delivery.id,
    )


class _PullPayload(Payload):
    number: int = Field(gt=0, validation_alias=AliasPath("pull_request", "number"))
    head: CommitSha = Field(pattern=_SHA, validation_alias=AliasPath("pull_request", "head", "sha"))
    """May be a fork's: GitHub keeps its commits with the base's."""


class _PullPushed(_PullPayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return ConfigCheckRequest(
            repo=self.repo, pull=self.number, head=self.head, delivery=delivery.id
        )


class _PullChanged(_PullPayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return _update_pull(self, delivery, self.number)


class _PullLabeled(LabelPayload, _PullPayload):
    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        return self.to_opt_out(delivery, self.number)


class _ReviewPart(BaseModel):
    id: int = 0
    node_id: str = ""
    state: str = ""
    body: str | None = None
    submitted_at: datetime | None = None


class _ReviewSubmitted(_PullPayload):
    review: _ReviewPart = _ReviewPart()

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        if self.sender.is_bot:
            return None
        review, number = self.review, self.number
        command = parse_command(review.body or "", *delivery.names.called)
        if command is not None and review.submitted_at is not None:
            return CommandRequest(
                repo=self.repo,
                issue=number,
                location=CommentLocation.REVIEW_TEXT,
                comment=review.id,
                node_id=review.node_id,
                by=self.sender.login,
                at=review.submitted_at,
                command=command,
                delivery=delivery.id,
            )
        update = _update_pull(self, delivery, number, Delay.DEBOUNCED)
        asks = review.state.lower() == "changes_requested"  # its lines come as comments
        return replace(update, review=review.node_id) if asks else update


class _CheckPull(BaseModel):
    number: int = Field(gt=0)


class _WithPulls(BaseModel):
    """GitHub's schema lets all of it be left out."""

    pull_requests: tuple[_CheckPull, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """All that have the head: not one of them is the head's own."""
        return tuple(one.number for one in self.pull_requests)


class _CheckSuite(_WithPulls):
    head_sha: CommitSha = Field(pattern=_SHA)


class _SuitePayload(Payload):
    check_suite: _CheckSuite


class _SuiteCompleted(_SuitePayload):
    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        numbers = self.check_suite.numbers
        if not numbers:
            return None
        return _update_pull(self, delivery, numbers[0], others=numbers[1:])


class _SuiteRerequested(_SuitePayload):
    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        suite = self.check_suite
        if not suite.numbers:
            return None
        return ConfigCheckRequest(
            repo=self.repo,
            pull=suite.numbers[0],
            others=suite.numbers[1:],
            head=suite.head_sha,
            again=True,
            with_evidence=True,
            delivery=delivery.id,
        )


class _CheckRun(_WithPulls):
    name: str
    head_sha: CommitSha = Field(pattern=_SHA)
    external_id: str | None = None
    check_suite: _WithPulls


class _CheckRerequested(Payload):
    check_run: _CheckRun

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        run = self.check_run
        numbers = run.numbers or run.check_suite.numbers
        # GitHub names no pull requests that come from forks; the external id does.
        written = re.fullmatch(
            r"config-[^ ]{1,200}-(\d{1,9})-[0-9a-f]{40,64}(?:-again-[0-9A-Za-z-]{1,64})?",
            run.external_id or "",
        )
        if not numbers and written is None:
            return None
        number = int(written[1]) if written else numbers[0]
        if run.name != SETTINGS_CHECK:
            return _update_pull(self, delivery, number, others=numbers[1:], again=True)
        return ConfigCheckRequest(
            repo=self.repo, pull=number, head=run.head_sha, again=True, delivery=delivery.id
        )


class _StatusBranch(BaseModel):
    name: str


class _CommitStatus(Payload):
    """CI that makes no check runs reports on a commit."""

    state: str
    branches: tuple[_StatusBranch, ...] = ()
    """The branches that hold the commit; GitHub names at most ten."""

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        if self.state == "pending" or not self.branches:
            return None
        branches = tuple(branch.name for branch in self.branches)
        return PullUpdate(repo=self.repo, target="branch", branches=branches, delivery=delivery.id)


class _Push(Payload):
    ref: str
    sender: AccountPart = AccountPart(login=Login("ghost"))
    """GitHub's schema lets it be left out."""

    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        _, heads, branch = self.ref.partition("refs/heads/")
        if not heads:
            return None
        return PullUpdate(
            repo=self.repo, target="base", branches=(branch,), delay=Delay.RATE_LIMITED,
            delivery=delivery.id,
        )  # fmt: skip


PAYLOADS: Final[Mapping[str, Mapping[str, type[Payload]]]] = {
    "pull_request": {
        "opened": _PullPushed,
        "reopened": _PullPushed,
        "synchronize": _PullPushed,
        "closed": _PullChanged,
        "converted_to_draft": _PullChanged,
        "labeled": _PullLabeled,
    },
    "pull_request_review": {"submitted": _ReviewSubmitted},
    "check_suite": {"completed": _SuiteCompleted, "rerequested": _SuiteRerequested},
    "check_run": {"rerequested": _CheckRerequested},
    "push": {"": _Push},
    "status": {"": _CommitStatus},
}
