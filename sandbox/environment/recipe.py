"""A recipe and the attempt it belongs to; the record of its installation."""

import hashlib
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, ValidationError

from sandbox.frozen import Frozen


@dataclass(frozen=True)
class Recipe:
    """The steps that install a repository, each a line for a shell inside the build container."""

    steps: tuple[str, ...]
    tools: tuple[str, ...] = ()
    """Earlier lines without access to the repository: interpreter and package managers."""
    version: str = ""
    """The version for packages that would ask git for it; empty if the index must provide it."""
    version_source: str = ""
    name: str | None = None
    inputs: str = ""
    """A digest of the files that decide which dependencies are installed."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of files that the steps find in the build's incoming folder."""
    dockerfile: str | None = None
    """The text of the Dockerfile in whose image the repository is installed."""
    tag: str | None = None
    """A tag of the commit, for a small git repository that the steps find; empty for one without a
    tag, None for no repository."""
    system_packages: tuple[str, ...] = ()
    """Debian packages installed first, without access to the repository."""

    @property
    def digest(self) -> str:
        """A digest that changes with everything that decides dependencies, but not the package's
        version."""
        own = (self.files, self.dockerfile, self.tag, self.system_packages)
        text = repr((self.tools, self.steps, self.name, self.inputs, *own))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Attempt:
    """One way to install a tree."""

    name: str
    """Unique within a plan, such as `setup`, `dockerfile`, `image`, `lock`, `ci` and `dated`."""
    summary: str
    """One sentence for people, such as "Python 3.8, the newest packages."."""
    recipe: Recipe
    only: bool = False
    """The maintainers' own setup: no other attempt may replace it."""


MAX_BYTES = 1024 * 1024
"""A longer record is ignored."""

Text = Annotated[str, Field(max_length=2000)]


class LeftOut(Frozen):
    """A requirement of only the tests that was not available."""

    requirement: Text
    reason: Text


class Installation(Frozen):
    """The installer's record, or the recipe's. The repository's code ran beside it: its contents
    are claims, but for `cut`."""

    attempt: Text = ""
    python: Text = ""
    """The version of the environment's Python, `3.N.P`."""
    as_of: Text = ""
    """The last day of the index that counted, `YYYY-MM-DD`; empty if there was no limit."""
    version: Text = ""
    """The version given to the package; empty if none was given."""
    version_source: Text = ""
    """The source of that version, in words."""
    distributions: tuple[Text, ...] = Field(default=(), max_length=5000)
    """All installed distributions, `name==version`, sorted."""
    commands: tuple[Text, ...] = Field(default=(), max_length=500)
    left_out: tuple[LeftOut, ...] = Field(default=(), max_length=500)
    later: dict[str, str] = Field(default={}, max_length=500)
    """Packages for which newer files counted as well, each with its day."""
    cut: Text = ""
    """A sentence that the time was over before the last step, if it was."""


def parse_installation(data: bytes) -> Installation | None:
    """Parse the JSON record in `data`; None if it is not such a record, or too long."""
    if len(data) > MAX_BYTES:
        return None
    try:
        return Installation.model_validate_json(data)
    except ValidationError:
        return None
