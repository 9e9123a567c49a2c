"""From a delivery to the request that it makes. Pure.

A new trigger is one payload with its `to_request`, and one line in the tables.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from bot.data.request import AnyRequest, ConfigCheckRequest, PullUpdate, StopRequest
from bot.data.run import StopReason
from bot.webhooks import access_events, issue_events, pull_events
from bot.webhooks.payload import Delivery, Event, MalformedPayload

P = TypeVar("P", bound=BaseModel)

PAYLOADS: Final[Mapping[str, Mapping[str, type[Event]]]] = {
    **access_events.PAYLOADS,
    **issue_events.PAYLOADS,
    **pull_events.PAYLOADS,
}
"""By `X-GitHub-Event`, then by the payload's action; an event without actions has one payload,
under no name. Everything else is ignored."""


class _ActionPayload(BaseModel):
    action: str


def read_request(event: str, delivery: Delivery, body: bytes) -> AnyRequest | None:
    """What a body whose signature was checked asks for; `event` is `X-GitHub-Event`.

    Raises:
        MalformedPayload: the body of an event that is handled here lacks what GitHub documents.
    """
    payloads = PAYLOADS.get(event)
    if payloads is None:
        return None
    if not re.fullmatch(r"[0-9A-Za-z-]{1,64}", delivery.id):
        raise MalformedPayload("X-GitHub-Delivery is missing or not an id.")
    kind = payloads.get("") or payloads.get(_parse(_ActionPayload, event, body).action)
    return None if kind is None else _parse(kind, event, body).to_request(delivery)


def _parse(kind: type[P], event: str, body: bytes) -> P:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = f"{where}: {fault['msg']}" if where else fault["msg"]
        article = "an" if event[:1] in "aeiou" else "a"
        raise MalformedPayload(
            f"Not {article} {event} event as GitHub documents it: {what}."
        ) from None


def companion_update(request: AnyRequest) -> PullUpdate | None:
    """The second request of an event: our own pull requests follow their issues and heads."""
    match request:
        case ConfigCheckRequest():
            return PullUpdate(
                repo=request.repo,
                target="pull",
                number=request.pull,
                others=request.others,
                again=request.with_evidence,
                delivery=request.delivery,
            )
        case StopRequest(why=StopReason.CLOSED):
            return PullUpdate(
                repo=request.repo, target="issue", number=request.issue, delivery=request.delivery
            )
        case _:
            return None
