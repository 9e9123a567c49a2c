"""The timeline of an issue: its labels, and what mentions it."""

from __future__ import annotations

import re

from bot.localhub.json import issues as shapes
from bot.localhub.rest.call import Answer, Call, operation, paginate
from bot.localhub.rest.issues import READ
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Issue


async def timeline(call: Call) -> Answer:
    """Oldest first. Of all that GitHub lists: labels, and references from the same repository."""
    issue = call.issue()
    url = call.hub.url
    moments = [
        (happening.at, shapes.label_event(url, issue, happening))
        for happening in issue.timeline
        if happening.event
    ]
    moments += [
        (other.created_at, shapes.cross_reference(url, other))
        for other in call.repo.issues.values()
        if other is not issue and _mentions(other, issue)
    ]
    moments.sort(key=lambda moment: moment[0])
    return paginate(call, [shape for _, shape in moments])


def _mentions(other: Issue, issue: Issue) -> bool:
    said = [other.title, other.body or "", *(comment.body for comment in other.comments)]
    name = re.escape(issue.repo.full_name)
    word = rf"(?:(?<![\w/])(?:{name})?#|/{name}/issues/){issue.number}\b"
    return any(re.search(word, text, re.I) for text in said)


OPERATIONS = (operation("GET", REPO + "/issues/{number}/timeline", timeline, READ),)
