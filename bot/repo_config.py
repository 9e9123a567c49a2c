"""The file `.github/capuchin.yml` in a customer's repository: what it may say, and reading it."""

from __future__ import annotations

import difflib
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from bot.yaml_file import NotReadable, YamlFile
from pipeline.options import Options

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

CANDIDATES: Final = (".github/capuchin.yml", ".capuchin.yml")
"""Where the file is looked for, in this order, on the default branch."""


class ConfigProblem(BaseModel):
    """Why a file is not a valid configuration, and where: a sentence for its author."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int
    """From 1."""
    column: int
    """From 1."""
    message: str
    """May quote the file: untrusted."""


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(shlex.split(value))
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_split),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        mode="validation",
    ),
]
_STRICT: Final = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Budget(BaseModel):
    """Ceilings in US dollars at list prices."""

    model_config = _STRICT

    run: float = Field(default=10.0, gt=0, le=1000)
    """For one run; once it is spent no further call is made. Calls under way may pass it."""


class RepoConfig(BaseModel):
    """Everything a repository can set. All of it is optional."""

    model_config = _STRICT

    version: Literal[1] = 1
    """Of this file's format."""
    enabled: bool = True
    """False: the label does nothing here."""
    draft: bool = True
    """Open pull requests as drafts."""
    samples: int = Field(default=10, ge=1, le=100)
    """How many independent edits are tried."""
    adaptive: bool = True
    """Start edits in waves and stop when independent ones agree; false: always try all."""
    first_wave: int = Field(default=4, ge=1, le=100)
    """How many edits each wave tries."""
    approaches: bool = True
    """Give each edit an approach of its own, drawn from the issue alone."""
    informed: float = Field(default=0.3, ge=0, le=1)
    """The share of edits that see what others tried and must differ."""
    attempts: int = Field(default=8, ge=1, le=50)
    """How many replies of the model each edit and each test may take."""
    context_tokens: int = Field(default=60_000, ge=1_000, le=1_000_000)
    """Budget for the source files shown to the model."""
    execution_seconds: float = Field(default=100, gt=0, le=3600)
    """How long one reproduction script may run."""
    suite_seconds: float = Field(default=900, gt=0, le=6 * 3600)
    """How long the repository's own tests may run."""
    nearby_seconds: float = Field(default=60, ge=0, le=3600)
    """How long the tests about the edited files may run after each edit; 0: not run so early."""
    budget: Budget = Budget()
    """Ceilings in US dollars."""
    setup: tuple[str, ...] = ()
    """Commands that install the repository, one after the other; empty: found out by itself."""
    test: Command = ()
    """The repository's own test command, as a list or as a line; empty: found out by itself."""
    never_touch: tuple[str, ...] = ()
    """Glob patterns of paths that no edit may change."""
    allow_lock_files: bool = False
    """Whether an edit may change lock files of package managers."""

    def options(self) -> Options:
        """The same for the pipeline."""
        return Options(
            samples=self.samples,
            adaptive=self.adaptive,
            first_wave=self.first_wave,
            approaches=self.approaches,
            informed=self.informed,
            attempts=self.attempts,
            context_tokens=self.context_tokens,
            execution_seconds=self.execution_seconds,
            suite_seconds=self.suite_seconds,
            nearby_seconds=self.nearby_seconds,
            dollars=self.budget.run,
            test_command=self.test,
            never_touch=self.never_touch,
            allow_lock_files=self.allow_lock_files,
        )


_PLAIN: Final = {
    "tuple_type": "Input should be a list",
    "model_type": "Input should be a mapping",
    "value_error": "Input is a line whose quotes are not closed",
}


def parse(text: str) -> RepoConfig | ConfigProblem:
    """Read the file's text; nothing, or only comments, means the defaults.

    A key without a value means its default too. Of several problems the first is returned.
    """
    try:
        file = YamlFile.read(text)
    except NotReadable as error:
        return ConfigProblem(line=error.line, column=error.column, message=str(error))
    try:
        return RepoConfig.model_validate_json(file.json())
    except ValidationError as error:
        return min(
            (_problem(file, fault) for fault in error.errors()), key=lambda p: (p.line, p.column)
        )


def _problem(file: YamlFile, fault: ErrorDetails) -> ConfigProblem:
    path = fault["loc"]
    unknown = fault["type"] == "extra_forbidden"
    line, column = file.place(path, of_key=unknown)
    name = ".".join(str(part) for part in path)
    if unknown:
        message = f'There is no setting "{name}".{_suggestion(name)}'
    elif fault["type"] == "json_invalid":
        message = "The file holds characters that are no text."
    elif path:
        message = f'"{name}": {_PLAIN.get(fault["type"], fault["msg"])}.'
    else:
        message = "The file must be a mapping of settings to values."
    return ConfigProblem(line=line, column=column, message=message)


def _suggestion(name: str) -> str:
    within, _, word = name.rpartition(".")
    model = Budget if within == "budget" else RepoConfig
    close = difflib.get_close_matches(word, list(model.model_fields), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
