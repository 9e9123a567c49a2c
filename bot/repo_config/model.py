"""The file `.github/capuchin.yml` in a customer's repository: its keys, and how it is read."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from bot.repo_config.yaml import UnreadableYaml, YamlFile
from pipeline.options import Options, SelectionMethod, SharedOptions

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

CONFIG_PATHS: Final = (".github/capuchin.yml", ".capuchin.yml")
"""Where the file is looked for, in this order, on the default branch."""


class ConfigProblem(BaseModel):
    """A mistake in the file and its place; `message` is a sentence for the file's author."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int
    """From 1."""
    column: int
    """From 1."""
    message: str
    """May quote the file: untrusted."""


def _split_command(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else _to_tuple(value)


def _to_tuple(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


_TEXT_OR_LIST: Final = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    mode="validation",
)
CommandLine = Annotated[tuple[str, ...], BeforeValidator(_split_command), _TEXT_OR_LIST]
Trust = Annotated[
    tuple[str, ...],
    BeforeValidator(_to_tuple),
    Field(min_length=1, max_length=100),
    _TEXT_OR_LIST,
]
Labels = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=50, pattern=r"\S")], ...],
    BeforeValidator(_to_tuple),
    Field(max_length=20),
    _TEXT_OR_LIST,
]
_STRICT: Final = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Budget(BaseModel):
    """Ceilings in US dollars at list prices."""

    model_config = _STRICT

    run: float = Field(default=10.0, gt=0, le=1000)
    """US dollars at list prices for one run; no call is made that could exceed it."""
    day: float | None = Field(default=None, gt=0, le=100_000)
    """US dollars per day (UTC) for all runs of this repository; empty: the operator's only."""


class Quota(BaseModel):
    """Runs per day. The operator's limits apply as well."""

    model_config = _STRICT

    person: int = Field(default=0, ge=0)
    """Runs per day that one person may request here; 0: the operator's limit only."""
    repository: int = Field(default=0, ge=0)
    """Runs per day of this repository; 0: the operator's limit only."""


class RepoPolicy(BaseModel):
    """The keys about the bot's behaviour on GitHub."""

    model_config = _STRICT

    version: Literal[1] = 1
    """Version of this file's format."""
    enabled: bool = True
    """False: the bot ignores this repository."""
    trust: Trust = ("write",)
    """Who may command the bot: `write` or `triage` for everybody with that role or above, or a list
    of logins, which may contain these words."""
    untrusted_comments: Literal["drop", "mark"] = "drop"
    """Comments by people without write access: `drop` them, or `mark` them as untrusted."""
    quota: Quota = Quota()
    """Limits on runs per day."""
    draft: bool | Literal["until_green"] = "until_green"
    """Open pull requests as drafts: true, false, or `until_green` (until the checks pass)."""
    labels: Labels = ()
    """Labels for the bot's pull requests; missing labels are created."""
    evidence_runs: int = Field(default=3, ge=1, le=20)
    """How often the check run repeats the reproduction test on base and head. A test with varying
    results is flaky, and rejected as evidence."""
    follow_up: bool = True
    """Address reviews and resolve conflicts of the bot's pull requests; false: people do both."""
    stale_days: int = Field(default=30, ge=0, le=3650)
    """Close the bot's pull requests after so many days without activity; 0: never."""


class RepoConfig(SharedOptions, RepoPolicy):
    """All keys of the file. Each is optional."""

    model_config = _STRICT

    selection: Literal["evidence", "voting", "machine"] = "evidence"
    """How one edit is selected: by all `evidence`, by `voting` of tests, or by a `machine` (a model
    that runs further tests)."""
    budget: Budget = Budget()
    """Ceilings in US dollars."""
    setup: tuple[str, ...] = ()
    """Commands that install the repository, run in order. Empty: detected."""
    dockerfile: str = ""
    """Path of a Dockerfile in the repository that builds the environment; `setup` then runs in it.
    Empty: none."""
    python: str = Field(default="", pattern=r"^(3\.\d{1,2})?$")
    """Python version of the environment, such as "3.12". Empty: detected."""
    test: CommandLine = ()
    """The repository's test command, as a line or a list. Empty: detected."""

    def options(self) -> Options:
        """The pipeline's options."""
        return Options(
            **{name: getattr(self, name) for name in SharedOptions.model_fields},
            selection=self.selection,
            dollars=self.budget.run,
            test_command=self.test,
        )


_ONE_GOOD_VALUE: Final = "it has one good value now. Delete it."
REMOVED: Final[Mapping[str, str]] = {
    "first_wave": _ONE_GOOD_VALUE,
    "agreement": _ONE_GOOD_VALUE,
    "informed": _ONE_GOOD_VALUE,
    "approaches": _ONE_GOOD_VALUE,
    "all_tests_vote": _ONE_GOOD_VALUE,
    "repeat_tests": _ONE_GOOD_VALUE,
    "scout_threshold": _ONE_GOOD_VALUE,
    "context_cap": 'it is fixed at 128,000 tokens. Delete it; "context_tokens" stays.',
    "prefilter": 'it is automatic now. Delete it; "include" and "exclude" select files.',
}
"""Keys of earlier versions, and what to do instead."""


_PLAIN_MESSAGES: Final = {
    "tuple_type": "Input should be a list",
    "model_type": "Input should be a mapping",
    "value_error": "Input is a line whose quotes are not closed",
}


_NOT_A_KEY: Final = (
    '{0} is for experiments, by "capuchin fix --selection {0}". '
    "Write evidence, voting or machine here."
)


def parse_config(text: str) -> RepoConfig | ConfigProblem:
    """Read the file's text; the first problem if there are any.

    An empty file, and a key without a value, mean the defaults.
    """
    found = _parse_all(text)
    return found if isinstance(found, RepoConfig) else found[0]


def find_problems(text: str) -> list[ConfigProblem]:
    """All problems of the file's text, in its order; none if it is valid."""
    found = _parse_all(text)
    return [] if isinstance(found, RepoConfig) else found


def _parse_all(text: str) -> RepoConfig | list[ConfigProblem]:
    try:
        file = YamlFile.parse(text)
    except UnreadableYaml as error:
        return [ConfigProblem(line=error.line, column=error.column, message=str(error))]
    try:
        return RepoConfig.model_validate_json(file.to_json())
    except ValidationError as error:
        found = [_to_problem(file, fault) for fault in error.errors()]
        return sorted(found, key=lambda problem: (problem.line, problem.column))


def _to_problem(file: YamlFile, fault: ErrorDetails) -> ConfigProblem:
    path = fault["loc"]
    unknown = fault["type"] == "extra_forbidden"
    line, column = file.position(path, of_key=unknown)
    name = ".".join(str(part) for part in path)
    if unknown and name in REMOVED:
        message = f'"{name}" was removed: {REMOVED[name]}'
    elif unknown:
        message = f'There is no setting "{name}".{_suggestion(name)}'
    elif path == ("selection",) and fault["input"] in get_args(SelectionMethod):
        message = f'"selection": {_NOT_A_KEY.format(fault["input"])}'
    elif fault["type"] == "json_invalid":
        message = "The file contains invalid characters."
    elif path:
        message = f'"{name}": {_PLAIN_MESSAGES.get(fault["type"], fault["msg"])}.'
    else:
        message = "The file must be a mapping of settings to values."
    return ConfigProblem(line=line, column=column, message=message)


def _suggestion(name: str) -> str:
    within, _, word = name.rpartition(".")
    nested: dict[str, type[BaseModel]] = {
        "budget": Budget,
        "quota": Quota,
    }
    model = nested.get(within, RepoConfig)
    close = difflib.get_close_matches(word, list(model.model_fields), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
