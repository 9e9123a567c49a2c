"""The file `.github/capuchin.yml` in a customer's repository: what it may say, and reading it."""

from __future__ import annotations

import difflib
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from bot.repo_config.yaml import UnreadableYaml, YamlFile
from pipeline.options import Options, SelectionMethod

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

CONFIG_PATHS: Final = (".github/capuchin.yml", ".capuchin.yml")
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


def _split_command(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(shlex.split(value))
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


CommandLine = Annotated[
    tuple[str, ...],
    BeforeValidator(_split_command),
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
    """For one run; no call is made that could pass it."""
    day: float | None = Field(default=None, gt=0, le=100_000)
    """For all runs of this repository in one day (UTC); empty: only the operator's ceilings."""


class Prefilter(BaseModel):
    """Whether only those files are read that share most words with the issue."""

    model_config = _STRICT

    use: Literal["auto", "always", "never"] = "auto"
    """`auto`: in repositories with more source files than `above`."""
    above: int = Field(default=5_000, ge=0)
    """Source files."""
    keep: int = Field(default=2_000, ge=1)
    """How many files are read then; those that the issue names are always among them."""


def _to_tuple(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


Trust = Annotated[
    tuple[str, ...],
    BeforeValidator(_to_tuple),
    Field(min_length=1, max_length=100),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        mode="validation",
    ),
]


Labels = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=50, pattern=r"\S")], ...],
    BeforeValidator(_to_tuple),
    Field(max_length=20),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        mode="validation",
    ),
]


class Quota(BaseModel):
    """Runs in a day; 0 is whatever the operator allows, which none of these can raise."""

    model_config = _STRICT

    person: int = Field(default=0, ge=0)
    """That one person may ask for here."""
    repository: int = Field(default=0, ge=0)
    """Of this repository."""


class RepoConfig(BaseModel):
    """Everything a repository can set. All of it is optional."""

    model_config = _STRICT

    version: Literal[1] = 1
    """Of this file's format."""
    enabled: bool = True
    """False: the label does nothing here."""
    trust: Trust = ("write",)
    """Who may command: `write`, `triage`, or a list of logins, among which those words may be."""
    untrusted_comments: Literal["drop", "mark"] = "drop"
    """What strangers wrote on the issue: not shown to the model, or shown as theirs."""
    quota: Quota = Quota()
    """How many runs there may be in a day."""
    draft: bool | Literal["until_green"] = "until_green"
    """Open pull requests as drafts: true, false, or until the repository's own checks pass."""
    labels: Labels = ()
    """Labels that pull requests get; those that the repository lacks are made."""
    evidence_runs: int = Field(default=3, ge=1, le=20)
    """How often the reproduction test is run on base and head; if it does not always end alike it
    is flaky, and refused as evidence."""
    follow_up: bool = True
    """Follow reviews of pull requests, and mend conflicts; false: only people change them."""
    stale_days: int = Field(default=30, ge=0, le=3650)
    """Close a pull request that nobody has touched for so many days; 0: never."""
    samples: int = Field(default=10, ge=1, le=100)
    """How many independent edits are tried."""
    adaptive: bool = True
    """Start edits in waves and stop when independent ones agree; false: always try all."""
    first_wave: int = Field(default=4, ge=1, le=100)
    """How many edits each wave tries."""
    agreement: int = Field(default=3, ge=2, le=100)
    """How many independent edits must agree before no more are tried."""
    approaches: bool = True
    """Give each edit an approach of its own, drawn from the issue alone."""
    informed: float = Field(default=0.3, ge=0, le=1)
    """The share of edits that see what others tried and must differ."""
    attempts: int = Field(default=8, ge=1, le=50)
    """How many replies of the model each edit and each test may take."""
    thinking_tokens: int = Field(default=0, ge=0, le=64_000)
    """Tokens that the model may think before each reply; 0: it is not told. Anthropic's models can
    be told, and vLLM with `--reasoning-parser`; elsewhere this has no effect."""
    batch: bool = False
    """Ask in batches where the provider has a lower price for them; a run then takes hours."""
    context_tokens: int = Field(default=60_000, ge=1_000, le=1_000_000)
    """Budget for the source files shown to the model: what it is asked to keep to in its choice."""
    context_cap: int = Field(default=128_000, ge=1_000, le=1_000_000)
    """The most tokens of source files that it is shown of what it chose."""
    scout_threshold: float = Field(default=0, ge=0, lt=1)
    """Above 0 the scout first says one word on each file, and only of files that are relevant with
    at least this probability more: cheaper, and it may miss some."""
    include: tuple[str, ...] = ()
    """Glob patterns of the only files that are read to find what matters; empty: all sources."""
    exclude: tuple[str, ...] = ()
    """Glob patterns of files that are not read to find what matters."""
    prefilter: Prefilter = Prefilter()
    """For very large repositories: read only the files that share most words with the issue."""
    execution_seconds: float = Field(default=100, gt=0, le=3600)
    """How long one reproduction script may run."""
    suite_seconds: float = Field(default=900, gt=0, le=6 * 3600)
    """How long the repository's own tests may run: of more, those that matter for an edit do."""
    nearby_seconds: float = Field(default=60, ge=0, le=3600)
    """How long the tests about the edited files may run after each edit; 0: not run so early."""
    selection: SelectionMethod = "evidence"
    """How one edit is chosen of several; README.md says what each way does."""
    all_tests_vote: bool = False
    """Whether tests that do not fail on the unedited code have a vote, too."""
    repeat_tests: int = Field(default=1, ge=0, le=10)
    """How often tests are run again to find those that end now so, now otherwise; 0: never."""
    confidence: float = Field(default=0.2, ge=0, le=1)
    """The least probability of being right with which a pull request is opened; 0: any."""
    budget: Budget = Budget()
    """Ceilings in US dollars."""
    setup: tuple[str, ...] = ()
    """Commands that install the repository, one after the other; empty: found out by itself."""
    dockerfile: str = ""
    """Path of a Dockerfile in the repository that makes what it is installed in; `setup` runs there
    afterwards. Empty: none."""
    python: str = Field(default="", pattern=r"^(3\.\d{1,2})?$")
    """The Python it is installed on, such as "3.12"; empty: found out by itself."""
    test: CommandLine = ()
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
            agreement=self.agreement,
            approaches=self.approaches,
            informed=self.informed,
            attempts=self.attempts,
            thinking_tokens=self.thinking_tokens,
            batch=self.batch,
            context_tokens=self.context_tokens,
            context_cap=self.context_cap,
            scout_threshold=self.scout_threshold,
            execution_seconds=self.execution_seconds,
            suite_seconds=self.suite_seconds,
            nearby_seconds=self.nearby_seconds,
            selection=self.selection,
            all_tests_vote=self.all_tests_vote,
            repeat_tests=self.repeat_tests,
            confidence=self.confidence,
            dollars=self.budget.run,
            test_command=self.test,
            never_touch=self.never_touch,
            allow_lock_files=self.allow_lock_files,
            include=self.include,
            exclude=self.exclude,
            prefilter=self.prefilter.use,
            prefilter_above=self.prefilter.above,
            prefilter_keep=self.prefilter.keep,
        )


_PLAIN_MESSAGES: Final = {
    "tuple_type": "Input should be a list",
    "model_type": "Input should be a mapping",
    "value_error": "Input is a line whose quotes are not closed",
}


def parse_config(text: str) -> RepoConfig | ConfigProblem:
    """Read the file's text; nothing, or only comments, means the defaults.

    A key without a value means its default too. Of several problems the first is returned.
    """
    found = _parse_all(text)
    return found if isinstance(found, RepoConfig) else found[0]


def find_problems(text: str) -> list[ConfigProblem]:
    """Everything that is wrong with the file's text, in its order; nothing if it is valid."""
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
    if unknown:
        message = f'There is no setting "{name}".{_suggestion(name)}'
    elif fault["type"] == "json_invalid":
        message = "The file holds characters that are no text."
    elif path:
        message = f'"{name}": {_PLAIN_MESSAGES.get(fault["type"], fault["msg"])}.'
    else:
        message = "The file must be a mapping of settings to values."
    return ConfigProblem(line=line, column=column, message=message)


def _suggestion(name: str) -> str:
    within, _, word = name.rpartition(".")
    nested: dict[str, type[BaseModel]] = {
        "budget": Budget,
        "prefilter": Prefilter,
        "quota": Quota,
    }
    model = nested.get(within, RepoConfig)
    close = difflib.get_close_matches(word, list(model.model_fields), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
