"""Reads an issue's pictures once, so that every later step, and every model, has them as text."""

from functools import partial

from pipeline.data.types import Issue
from pipeline.models.base import Message, ModelMisconfigured, ModelRefused, ModelRequest
from pipeline.resources import Resources
from pipeline.store import load_or_run
from prompts.templates import render
from sandbox.frozen import Frozen, replace

PICTURES_KEY = "pictures"
_MAX_TOKENS = 4_000


class PicturesRead(Frozen):
    """What the pictures show, in a model's words; empty if it declined to read them."""

    text: str


async def read_pictures(issue: Issue, resources: Resources) -> Issue:
    """`issue` with its pictures as text, as far as the solver can read them.

    Raises:
        ModelError, BudgetSpent: see `Model.complete`.
    """
    if not issue.pictures:
        return issue
    read = await load_or_run(
        resources.store, PICTURES_KEY, PicturesRead, partial(_ask, issue, resources)
    )
    body = issue.body
    if read.text:
        body += f"\n\nWhat the pictures show, as a model read them:\n\n{read.text}"
    return replace(issue, body=body, pictures=())


async def _ask(issue: Issue, resources: Resources) -> PicturesRead:
    model = resources.model
    if not model.profile.vision:
        return PicturesRead(text="")
    question = Message(
        role="user", text=render("pictures/read", issue=issue), pictures=issue.pictures
    )
    try:
        reply = await model.complete(
            ModelRequest(
                system=render("pictures/system"),
                messages=(question,),
                call="pictures/0",
                max_tokens=_MAX_TOKENS,
            )
        )
    except (ModelRefused, ModelMisconfigured):  # no picture is worth the run
        return PicturesRead(text="")
    return PicturesRead(text=reply.text.strip())
