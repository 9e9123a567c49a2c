"""The timeline of an issue: its labels and its mentions."""

from __future__ import annotations

import re

from bot.localhub.json import issues as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.issues import READ
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Issue


async def list_timeline(call: RestCall) -> RestResponse:
    """The entries, oldest first: labels, and references from the same repository."""
    issue = call.issue()
    url = call.hub.url
    moments = [
        (entry.at, shapes.label_event(url, issue, entry)) for entry in issue.timeline if entry.event
    ]
    moments += [
        (other.created_at, shapes.cross_reference(url, other))
        for other in call.repo.issues.values()
        if other is not issue and _has_mention(other, issue)
    ]
    moments.sort(key=lambda moment: moment[0])
    return paginate(call, [shape for _, shape in moments])


def _has_mention(other: Issue, issue: Issue) -> bool:
    texts = [other.title, other.body or "", *(comment.body for comment in other.comments)]
    name = re.escape(issue.repo.full_name)
    word = rf"(?:(?<![\w/])(?:{name})?#|/{name}/issues/){issue.number}\b"
    return any(re.search(word, text, re.I) for text in texts)


OPERATIONS = (operation("GET", REPO + "/issues/{number}/timeline", list_timeline, READ),)
