"""The keys of `.github/capuchin.yml`, their JSON Schema, and how files are merged.

`errorMessage` and `doNotSuggest` are read by the language servers for YAML and JSON, beyond the
standard: https://github.com/redhat-developer/yaml-language-server.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from bot.repo_config.mistakes import (
    MAX_NAME,
    Node,
    complete_schema,
    explain_fault,
    explain_home,
    find_homes,
    find_node,
)
from bot.repo_config.yaml import UnreadableYaml, YamlFile
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options, SharedOptions
from pipeline.data.presets import apply_preset
from pipeline.data.types import Issue
from pipeline.languages.registry import aim
from pipeline.languages.test_command import needs_shell
from prompts.text import pluralize
from sandbox.engine import EnvironmentSpec

CONFIG_PATHS: Final = (".github/capuchin.yml", ".capuchin.yml")
"""Where the file is looked for, in this order, on the default branch."""

MAX_PROBLEMS: Final = 20
"""How many mistakes of a file are described: each is a note on the pull request."""


class ConfigProblem(BaseModel):
    """A mistake in the file and its place from 1; `message` is a sentence for the file's author."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int
    column: int
    message: str
    """May quote the file: untrusted."""


def _split_command(value: Any) -> Any:
    if not isinstance(value, str):
        return _to_tuple(value)
    try:
        words = tuple(shlex.split(value))
        return ("sh", "-c", value) if needs_shell(value) else words
    except ValueError:
        raise PydanticCustomError("quotes", "A quote in this line is not closed") from None


def _list_to_tuple(value: Any) -> Any:
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def _to_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _list_to_tuple(value)


def _text_or_list(message: str, text: dict[str, Any], **of_list: int) -> WithJsonSchema:
    """The schema of a list that may be written as its one item; `message` is for a mistake."""
    items = {"type": "string", **text, "errorMessage": message}
    both = {**items, "type": ["string", "array"], "items": items, **of_list}
    return WithJsonSchema(both, mode="validation")


CommandLine = Annotated[
    tuple[str, ...],
    BeforeValidator(_split_command),
    _text_or_list("Write a command, or a list of its words.", {}),
]
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_to_tuple),
    _text_or_list("Write a text or a list of texts.", {}),
]
_TRUSTED: Final = r"^@?[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?$"
_ROLES: Final = (
    r"^@?([Aa]dmins?|[Mm]aintain(ers?)?|[Rr]ead(ers?)?|[Oo]wners?|[Mm]embers?|[Cc]ollaborators?"
    r"|[Cc]ontributors?|[Ee]very(one|body)|[Aa]ny(one|body)|[Aa]ll|[Nn]one|[Pp]ublic)$"
)
"""Words that mean a role to who writes them, though somebody may have one as a login."""


def _refuse_role(word: str) -> str:
    if re.match(_ROLES, word):
        raise ValueError(word)
    return word


_BRANCH_PREFIX: Final = (
    r"^([A-Za-z0-9_][A-Za-z0-9_-]{0,49}/){0,3}([A-Za-z0-9_][A-Za-z0-9_-]{0,49}-)?$"
)
"""Whatever follows, it is a name that git allows (git-check-ref-format(1))."""


_IN_COMMITS: Final = r"^(sign-off|co-author|[^\s:\]][^\n\r:\]]{0,38}[:\]]) ?$"
_FOLDER: Final = r"^(\.?[\w@+-][\w.@+ -]*(/\.?[\w@+-][\w.@+ -]*)*/?)?$"
"""No part of it is `..`."""
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ENV_SCHEMA: Final[Node] = {
    "type": "object",
    "propertyNames": {"pattern": _VARIABLE},
    "additionalProperties": {"type": "string", "maxLength": 2000},
    "maxProperties": 50,
    "errorMessage": "Write at most 50 variables, each a name and a text, such as TZ: UTC.",
}


Trust = Annotated[
    tuple[Annotated[str, Field(pattern=_TRUSTED), AfterValidator(_refuse_role)], ...],
    BeforeValidator(_to_tuple),
    Field(min_length=1, max_length=100),
    _text_or_list(
        "Write write, triage, a login, an App such as sorter[bot], or a list of these; teams and "
        "other roles do not work.",
        {"pattern": _TRUSTED, "not": {"type": "string", "pattern": _ROLES}},
        minItems=1,
        maxItems=100,
    ),
]
Followed = Annotated[
    bool | tuple[Annotated[str, Field(pattern=_TRUSTED)], ...],
    BeforeValidator(_to_tuple),
    WithJsonSchema(
        {
            "type": ["boolean", "string", "array"],
            "pattern": _TRUSTED,
            "items": {"type": "string", "pattern": _TRUSTED},
            "maxItems": 20,
            "errorMessage": "Write true, false, a login, or a list of logins.",
        },
        mode="validation",
    ),
]


Draft = Annotated[
    bool | Literal["until_green"] | tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
    BeforeValidator(_list_to_tuple),
    WithJsonSchema(
        {
            "type": ["boolean", "string", "array"],
            "pattern": "^until_green$",
            "examples": ["until_green"],
            "items": {"type": "string", "maxLength": 200},
            "maxItems": 50,
            "errorMessage": "Write true, false, until_green, or a list of names of checks.",
        },
        mode="validation",
    ),
]


def is_named(login: str, followed: bool | tuple[str, ...]) -> bool:
    """Whether `follow_up` names the account."""
    names = followed if isinstance(followed, tuple) else ()
    return login.casefold() in {name.removeprefix("@").casefold() for name in names}


Commits = Annotated[
    tuple[Annotated[str, Field(pattern=_IN_COMMITS)], ...],
    BeforeValidator(_to_tuple),
    Field(max_length=3),
    _text_or_list(
        "Write sign-off, co-author, a prefix of titles such as ABC-123:, or a list of these.",
        {"pattern": _IN_COMMITS},
        maxItems=3,
    ),
]
Labels = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=50, pattern=r"\S")], ...],
    BeforeValidator(_to_tuple),
    Field(max_length=20),
    _text_or_list(
        "Write a label of at most 50 characters, or a list of at most 20.",
        {"maxLength": 50, "pattern": r"\S"},
        maxItems=20,
    ),
]
_STRICT: Final = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Budget(BaseModel):
    """Ceilings in US dollars at list prices."""

    model_config = _STRICT

    run: float = Field(default=10.0, gt=0, le=1000)
    """US dollars at list prices for one run; no call is made that could exceed it."""
    day: float | None = Field(default=None, gt=0, le=100_000)
    """US dollars per day (UTC) for all runs of this repository; empty: the operator's only."""


class RepoPolicy(BaseModel):
    """The keys about the bot's behaviour on GitHub."""

    model_config = _STRICT

    version: Literal[1] = 1
    """Version of this file's format."""
    enabled: bool = True
    """False: the bot ignores this repository."""
    trust: Trust = ("write",)
    """Who may command the bot: `write` or `triage` for everybody with at least that role, a login,
    or a list of these. A login that is one of these words is written `"@write"`. An App, written as
    `"sorter[bot]"`, may label, but not comment."""
    draft: Draft = "until_green"
    """Open pull requests as drafts: true, false, or `until_green` (until the checks pass; where a
    branch requires some, these alone). A list of checks, such as `[tide]`: until all others
    pass."""
    publish: Literal["branch", "approval"] = "branch"
    """`branch`: push a finished edit and open its pull request, so that your CI runs it with its
    secrets before anybody has read it. `approval`: show it on the issue, and push once somebody
    whom `trust` names asks for it there; reviews are then answered by people alone."""
    labels: Labels = ()
    """Labels for the bot's pull requests; missing labels are created."""
    base_branch: str = Field(default="", max_length=200)
    """The branch to fix and to open pull requests against. Empty: the default branch."""
    branch_prefix: str = Field(
        default="capuchin/",
        pattern=_BRANCH_PREFIX,
        json_schema_extra={"errorMessage": "Write what branches begin with, such as bots/."},
    )
    """What the names of the bot's branches begin with."""
    commits: Commits | None = None
    """A list of what the bot's commits carry: `sign-off` (a `Signed-off-by`, for a DCO check),
    `co-author` (who asked), and what titles begin with, such as `"ABC-123:"`. Empty: `co-author`;
    a sign-off and a ticket as the repository's guides and history have them."""
    follow_up: Followed = True
    """Address reviews and resolve conflicts of the bot's pull requests; false: people do both. A
    list of logins, such as `["autofix-ci[bot]"]`: also after commits of these. A branch to which
    anybody else commits is theirs, unless it is a merge of the base branch alone."""
    answer_ci: bool = False
    """Mend what the repository's own checks find in the bot's pull requests, at most twice in each,
    under `budget.run`; failed jobs of GitHub Actions are run again first."""

    @property
    def ignored_checks(self) -> tuple[str, ...]:
        """The names of checks that do not count."""
        return self.draft if isinstance(self.draft, tuple) else ()

    @property
    def follows_reviews(self) -> bool:
        return self.follow_up is not False and self.publish == "branch"


class RepoConfig(SharedOptions, RepoPolicy):
    """All keys of the file. Each is optional."""

    model_config = _STRICT

    budget: Budget = Budget()
    """Ceilings in US dollars."""
    exclude: Texts = ()
    """Glob patterns of files not to read, in addition to those that `.gitattributes` marks."""
    never_touch: Texts = ()
    """Glob patterns of paths that no edit may change."""
    setup: Texts = ()
    """Commands that install the repository, run in order. Empty: detected."""
    dockerfile: str = ""
    """Path of a Dockerfile in the repository that builds the environment; `setup` then runs in it.
    Empty: none."""
    python: str = Field(
        default="",
        pattern=r"^(3\.\d{1,2})?$",
        json_schema_extra={"errorMessage": 'Write a version in quotes, such as "3.12".'},
    )
    """Python version of the environment, such as "3.12". Empty: detected."""
    root: Annotated[str, AfterValidator(lambda path: path.rstrip("/"))] = Field(
        default="",
        pattern=_FOLDER,
        max_length=200,
        json_schema_extra={"errorMessage": "Write a folder of the repository, such as backend."},
    )
    """The folder of the project, if it does not lie at the repository's root; its language, its
    installation and its tests are looked for there. Empty: detected."""
    language: Literal[
        "", "python", "javascript", "go", "rust", "c", "java", "ruby", "php", "csharp"
    ] = ""
    """The language in which the project is installed and tested; `javascript` is TypeScript's, too,
    and `c` that of C++. Empty: detected."""
    build: Texts = ()
    """Commands that build the project, run without a network: once it is installed, and again for
    each edit. Empty: as its language builds."""
    env: Annotated[
        dict[Annotated[str, Field(pattern=_VARIABLE)], Annotated[str, Field(max_length=2000)]],
        Field(max_length=50),
        WithJsonSchema(_ENV_SCHEMA, mode="validation"),
    ] = {}
    """Environment variables for installation, `build` and everything that is run in the sandbox,
    such as tests. No place for secrets: the repository's code can read them."""
    test: CommandLine = ()
    """The repository's test command, as a line or a list. Empty: detected."""

    def options(self) -> Options:
        """The pipeline's options."""
        options = Options(
            **{name: getattr(self, name) for name in SharedOptions.model_fields},
            dollars=self.budget.run,
            test_command=self.test,
        )
        return apply_preset(options, explicit=self.model_fields_set)

    def environment(self) -> EnvironmentSpec:
        """What it says about the environment."""
        names = (field.name for field in fields(EnvironmentSpec))
        return EnvironmentSpec(**{name: getattr(self, name) for name in names})

    def aim(self, codebase: Codebase, issue: Issue, root: str = "") -> Codebase:
        """The codebase with the project that `root` or the file names, else `issue` speaks of."""
        text = f"{issue.title}\n{issue.body}"
        return aim(codebase, text, root=root or self.root, language=self.language)


@cache
def build_schema() -> Node:
    """The completed schema of the file; do not change it."""
    return complete_schema(RepoConfig.model_json_schema())


def parse_config(text: str) -> RepoConfig | ConfigProblem:
    """Read the file's text; the first problem if there are any.

    An empty file, and a key without a value, mean the defaults.
    """
    found = parse_or_list_problems(text)
    return found if isinstance(found, RepoConfig) else found[0]


def parse_or_list_problems(text: str) -> RepoConfig | list[ConfigProblem]:
    """Read the file's text; the first `MAX_PROBLEMS` problems, in its order, if there are any.

    One more entry says how many there are beyond those. Takes time in proportion to the text.
    """
    try:
        file = YamlFile.parse(text)
    except UnreadableYaml as error:
        return [ConfigProblem(line=error.line, column=error.column, message=str(error))]
    found = [
        ((line, column), f'"{name[:MAX_NAME]}" is set twice.')
        for line, column, name in file.list_duplicates()
    ]
    try:
        config = RepoConfig.model_validate_json(file.to_json())
        if not found:
            return config
    except ValidationError as error:
        faults = [
            (file.position(fault["loc"], of_key=fault["type"] == "extra_forbidden"), fault)
            for fault in error.errors(include_url=False)
            if fault["loc"] != ("draft", "bool")  # a union: its other fault says what may stand
        ]
        faults.sort(key=lambda each: each[0])
        root = build_schema()
        said = [(at, explain_fault(root, fault)) for at, fault in faults[:MAX_PROBLEMS]]
        found += dict.fromkeys(said)  # each branch of a union says the same
        found += [(at, "") for at, _ in faults[MAX_PROBLEMS:]]  # not shown, so not explained
    found.sort(key=lambda each: each[0])
    problems = [
        ConfigProblem(line=line, column=column, message=message)
        for (line, column), message in found[:MAX_PROBLEMS]
    ]
    if more := found[MAX_PROBLEMS:]:
        line, column = more[0][0]
        message = f"{pluralize(len(more), 'more error')} from here on. Correct those above first."
        problems.append(ConfigProblem(line=line, column=column, message=message))
    return problems


SCHEMA_ROUTE: Final = "/schema/capuchin.json"
"""Its path on `capuchin serve`."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the file."""
    found = deepcopy(build_schema())
    homes = {  # without a value, a key is ignored
        name: {"type": "null", "errorMessage": explain_home(name, home), "doNotSuggest": True}
        for name, home in find_homes(found).items()
    }
    found["properties"] |= homes
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "Capuchin's settings of a repository",
    }


def key_description(root: Node, key: str) -> str:
    return " ".join(str(find_node(root, key.split(".")).get("description", "")).split())


DEFAULT_SOURCE: Final = "default"
"""The source of a value that no file sets."""


class LayerProblem(NamedTuple):
    """An invalid file and its first problem."""

    source: str
    problem: ConfigProblem


class Setting(NamedTuple):
    """A key with its effective value; dots join nested keys."""

    key: str
    value: str
    """As JSON, which is also YAML. May quote the file: untrusted."""
    source: str
    """`default`, or the source of the file that sets it."""


@dataclass(frozen=True)
class EffectiveConfig:
    config: RepoConfig
    origins: Mapping[str, str]
    """Each key that a file sets, with dots, and the source of the last such file."""


def merge_layers(
    layers: Sequence[tuple[str, RepoConfig | ConfigProblem]],
) -> EffectiveConfig | LayerProblem:
    """Merge files, each with its source; a later file overrides an earlier one.

    Each file must be valid by itself. Mappings are merged key by key; a list is replaced whole.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source, found in layers:
        if isinstance(found, ConfigProblem):
            return LayerProblem(source, found)
        given = found.model_dump(exclude_unset=True)
        _merge(values, given)
        origins.update(dict.fromkeys(_key_paths(given), source))
    return EffectiveConfig(RepoConfig.model_validate(values), origins)


def list_settings(effective: EffectiveConfig) -> list[Setting]:
    """All keys in the order of the model, with values and sources."""
    return [
        Setting(key, value, effective.origins.get(key, DEFAULT_SOURCE))
        for key, value in _flatten(effective.config)
    ]


def _flatten(model: BaseModel, prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    plain = model.model_dump(mode="json")
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            rows += _flatten(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", json.dumps(plain[name], ensure_ascii=False)))
    return rows


def _merge(onto: dict[str, Any], given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(onto.get(key), dict):
            _merge(onto[key], cast(dict[str, Any], value))
        else:
            onto[key] = value


def _key_paths(given: Mapping[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, value in given.items():
        if isinstance(value, dict) and f"{prefix}{key}" != "env":
            found += _key_paths(cast(dict[str, Any], value), f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key}")
    return found
