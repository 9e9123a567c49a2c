"""The facts about the environment in every conversation of a model that works in it."""

import re
from typing import Final

from packaging.utils import canonicalize_name

from pipeline.environment.health import Grade
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.base import Model
from pipeline.models.wrappers import InformedModel
from prompts.templates import render
from sandbox.frozen import Frozen

MOST_DISTRIBUTIONS: Final = 40
_TELLING: Final = re.compile(
    r"(pytest|numpy|pandas|scipy|django|flask|jinja2|werkzeug|sqlalchemy|setuptools|docutils|attrs"
    r"|typing-extensions|pydantic|hypothesis|six|requests|urllib3|matplotlib|astroid|mpmath)==",
    re.IGNORECASE,
)
"""Distributions whose versions explain most; the rest follow in the order of their names."""


class EnvironmentFacts(Frozen):
    """The values of the template `shared/environment`."""

    python: str = ""
    toolchain: str = ""
    """What that of another language says of its version. Untrusted."""
    version: str = ""
    distributions: tuple[str, ...] = ()
    """`name==version`."""
    more: int = 0
    lines: tuple[str, ...] = ()
    """What ran to make it, in another language: what these left is there. Untrusted."""
    command: str = ""
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
    named = [one for one in stated if re.fullmatch(r"[\w.-]{1,80}==[\w.!+-]{1,40}", one)]
    version = installed.version if installed else ""
    for one in named.copy():
        name, _, its_version = one.partition("==")
        if canonicalize_name(name) == canonicalize_name(own):
            named.remove(one)
            version = its_version
    named.sort(key=lambda one: (not _TELLING.match(one), one.lower()))
    return EnvironmentFacts(
        python=health.python,
        toolchain=re.sub(r"[^\w .,:()+/-]", "", health.toolchain),
        version=version if re.fullmatch(r"[\w.!+-]{1,60}", version) else "",
        distributions=tuple(named[:MOST_DISTRIBUTIONS]),
        more=len(named[MOST_DISTRIBUTIONS:]),
        lines=installed.commands if installed and not health.python else (),
        command=" ".join(health.command)[:300].replace("`", ""),
        seen=health.sentences(),
        broken=health.grade is Grade.BROKEN,
    )


def inform(model: Model, facts: EnvironmentFacts) -> InformedModel:
    """`model`, whose conversations begin with `facts` unless they run nothing."""
    text = render("shared/environment", environment=facts)
    # The first two run nothing; the third makes the environment.
    return InformedModel(model, text, without=("relevance", "ranking", "environment"))
