"""The facts about the environment in every conversation of a model that works in it."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from packaging.utils import canonicalize_name

from pipeline.environment.health import Grade
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.base import Message, Model, ModelRequest, Reply
from pipeline.models.metering import ModelWrapper
from prompts.templates import render
from sandbox.frozen import Frozen

MOST_DISTRIBUTIONS: Final = 40
_DISTRIBUTION: Final = re.compile(r"[\w.-]{1,80}==[\w.!+-]{1,40}")
_TELLING: Final = re.compile(
    r"(pytest|numpy|pandas|scipy|django|flask|jinja2|werkzeug|sqlalchemy|setuptools|docutils|attrs"
    r"|typing-extensions|pydantic|hypothesis|six|requests|urllib3|matplotlib|astroid|mpmath)==",
    re.IGNORECASE,
)
"""Distributions whose versions explain most; the rest follow in the order of their names."""
WITHOUT_FACTS: Final = ("relevance", "ranking", "environment")
"""Calls that run nothing, and the call that makes the environment."""


class EnvironmentFacts(Frozen):
    """The values of the template `shared/environment`."""

    python: str = ""
    version: str = ""
    """The installed version of the repository's package."""
    distributions: tuple[str, ...] = ()
    """`name==version`."""
    more: int = 0
    """How many others are installed."""
    command: str = ""
    """The command that runs the repository's tests."""
    seen: tuple[str, ...] = ()
    """Sentences about the environment's health. Untrusted."""
    broken: bool = False


def facts_of(record: EnvironmentRecord, own: str = "") -> EnvironmentFacts | None:
    """The facts for models; None if nothing is known. The version of the repository's own package,
    named `own`, is stated apart from the others', as it is installed."""
    health, installed = record.health, record.installation
    if health is None:
        return None
    stated = (installed.distributions if installed else ()) or health.installed
    named = [one for one in stated if _DISTRIBUTION.fullmatch(one)]
    version = installed.version if installed else ""
    for one in named.copy():
        name, _, its_version = one.partition("==")
        if canonicalize_name(name) == canonicalize_name(own):
            named.remove(one)
            version = its_version
    named.sort(key=lambda one: (not _TELLING.match(one), one.lower()))
    return EnvironmentFacts(
        python=health.python,
        version=version if re.fullmatch(r"[\w.!+-]{1,60}", version) else "",
        distributions=tuple(named[:MOST_DISTRIBUTIONS]),
        more=len(named[MOST_DISTRIBUTIONS:]),
        command=" ".join(health.command)[:300].replace("`", ""),
        seen=health.sentences(),
        broken=health.grade is Grade.BROKEN,
    )


class InformedModel(ModelWrapper):
    """A model whose conversations begin with the facts about the environment.

    The facts precede the issue, which all machines share, so that a prompt cache holds both.
    """

    def __init__(self, model: Model, facts: EnvironmentFacts) -> None:
        super().__init__(model)
        self._text = render("shared/environment", environment=facts)

    async def complete(self, request: ModelRequest) -> Reply:
        if request.call.split("/")[0] in WITHOUT_FACTS:
            return await self.model.complete(request)
        first, *rest = request.messages
        opening = Message(role=first.role, text=f"{self._text}\n{first.text}")
        return await self.model.complete(dataclasses.replace(request, messages=(opening, *rest)))
