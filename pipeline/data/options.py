"""The options of one run of the pipeline."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SelectionMethod = Literal[
    "evidence", "voting", "model", "top3", "machine", "exec", "orm_exec", "ast_voting", "dev_search"
]
"""The ways of choosing among edits; `pipeline.selection.methods` describes each."""

Strategy = Literal["samples", "search", "codemonkeys", "swe_reasoner"]
"""The ways of finding edits; `SharedOptions.strategy` describes each."""


ModelName = Annotated[str, Field(max_length=300)]


Addition = Literal[
    "comments", "ranking", "habits", "other files", "checks", "equal tests", "other edits"
]
"""What we added to both papers' methods; `Options.without` describes each."""


class Generator(BaseModel):
    """A way to write edits: a kind of machine with a model."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    machine: Literal["fixed", "explore"] = "fixed"
    """`fixed`: the model sees the ranked files; `explore`: it runs commands in sealed checkouts."""
    model: ModelName | tuple[ModelName, ...] = ""
    """The name of one of the operator's models; empty: the solver. A list: one of them, drawn anew
    for each reply."""
    share: float = Field(default=1, gt=0, le=100)
    """Its weight among the generators."""

    @property
    def models(self) -> tuple[str, ...]:
        """The names of `model`; an empty one is the solver."""
        return (self.model,) if isinstance(self.model, str) else self.model

    @property
    def named(self) -> tuple[str, ...]:
        """The names that are not the solver's."""
        return tuple(filter(None, self.models))


class Recalibration(BaseModel):
    """A correction of the confidence by what became of a repository's earlier edits."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    shift: float = Field(ge=-10, le=10)
    """Added to the log-odds."""
    outcomes: int = Field(ge=1)
    """How many earlier edits it is fitted on."""
    language: str = ""
    """Their language, if the confidence itself was not fitted on edits in it."""


ONLY_FIXED = (Generator(),)
"""The paper's way."""


class SharedOptions(BaseModel):
    """The options that a repository's file sets under the same names; descriptions are its prose.

    Defaults are the paper's (CodeMonkeys, Table 4) unless a comment says otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    samples: int = Field(default=10, ge=1, le=100)
    """How many independent edits are tried."""
    # The paper has one fixed machine with one model.
    generators: tuple[Generator, ...] = Field(default=(), max_length=10)
    """Ways to write edits, mixed by their shares: a list of `machine` (`fixed` or `explore`),
    `model` (one of the operator's, or a list to draw each reply from; empty: the solver) and
    `share`. Empty: the operator's."""
    strategy: Strategy | None = None
    """How edits are found: `samples` starts each from the ranked files; `search` first searches for
    the files and lines to change, in two steps judged by the operator's process reward model, and
    starts the edits from the best answers (SWE-Reasoner); `codemonkeys` and `swe_reasoner` are the
    methods of both papers as published, without what was added here: controls for experiments,
    which propose whatever edit they select. Other keys in this file take precedence. Empty: the
    operator's."""
    # The paper's model did not think.
    thinking_tokens: int = Field(default=0, ge=0, le=64_000)
    """Tokens that the model may think before each reply; 0: off. Only Anthropic's models and vLLM
    with `--reasoning-parser` support it."""
    exclude: tuple[str, ...] = ()
    """Glob patterns of files not to read, beside those that `.gitattributes` marks."""
    # The paper has no limit.
    minutes: float = Field(default=120, ge=0, le=7 * 24 * 60)
    """Minutes that a run may work once the repository is installed; 0: no limit.
    Later steps keep a part of it: the repository's tests are cut short before the regression test,
    and an edit that is chosen by then is proposed with the evidence that there is."""
    # The paper always proposes. The default holds back what is wrong more often than four in five.
    confidence: float = Field(default=0.2, ge=0, le=1)
    """Least estimated probability of a correct fix for opening a pull request; 0: always open."""
    # The paper proposes without a test of the repository.
    unproven: Literal["draft", "never"] = "draft"
    """If no regression test can be committed for the chosen edit: open a `draft` pull request that
    says so, or `never`."""
    never_touch: tuple[str, ...] = ()
    """Glob patterns of paths that no edit may change."""


class Options(SharedOptions):
    """All options of a run; those declared here have one good value outside experiments.

    Defaults are the paper's unless said otherwise.
    """

    # The paper always tries all samples.
    adaptive: bool = True
    """Start edits in waves and stop when independent edits agree; false: always try all."""
    attempts: int = Field(default=8, ge=1, le=50)
    """How many model replies each edit and each test may take; malformed replies count."""
    context_tokens: int = Field(default=60_000, ge=1_000, le=1_000_000)
    """Token budget for the source files that the model is shown."""
    finalists: int = Field(default=3, ge=1, le=20)
    """How many of the best edits a model chooses among, by tests that tell them apart."""
    execution_seconds: float = Field(default=100, gt=0, le=3600)
    """Processor seconds that one reproduction script may use."""
    suite_seconds: float = Field(default=120, gt=0, le=6 * 3600)
    """Processor seconds that one run of the repository's test suite may use; of a longer suite,
    only the tests near an edit are run."""
    # The paper runs no tests of the repository before the choice.
    nearby_seconds: float = Field(default=25, ge=0, le=3600)
    """Processor seconds that the tests near an edit may use, run after each edit without and with
    it; 0: off."""
    first_wave: int = Field(default=4, ge=1, le=100)
    """Samples in each wave when `adaptive`."""
    agreement: int = Field(default=3, ge=2, le=100)
    """Independent samples that must agree before no more are started, when `adaptive`."""
    approaches: bool = True
    """Draw a different approach for each sample but the plain ones, the first and the fifth, and
    the informed ones, from the issue and the ranked files. The paper draws none."""
    informed: float = Field(default=0.3, ge=0, le=1)
    """The share of samples, rounded down, that see what finished samples tried and must differ;
    never the plain ones. The paper has none."""
    summaries: bool = True
    """Whether each sample leaves a summary of what it did, for the informed ones and for the
    selection machine where it compares pairs. The paper has none."""
    turns: int = Field(default=250, ge=2, le=1000)
    """Model replies of an exploring machine, which mostly ends before: at the sample's share of
    `dollars`."""
    selection_attempts: int = Field(default=10, ge=1, le=50)
    """Model replies of the selection machine."""
    selection: SelectionMethod = "evidence"
    """How one edit is selected. The paper's best method is `machine`."""
    all_tests_vote: bool = False
    """Whether tests that pass on the unedited code vote as well, as in the paper."""
    repeat_tests: int = Field(default=1, ge=0, le=10)
    """How often each voting test is re-run on the unedited code and on one edit that passes it, to
    detect flaky tests; 0: never, as in the paper."""
    # The paper merges three; greedy requests are identical, and so are their answers.
    rankings: int | None = Field(default=None, ge=1, le=9)
    """How many rankings of the relevant files are requested and merged; None: one, or three where
    the model takes no temperature, so that its answers differ, and not all files fit."""
    context_cap: int = Field(default=128_000, ge=1_000)
    """Hard limit in tokens for the files shown; the model may exceed `context_tokens` up to it."""
    all_revisions: bool = False
    """Whether every test also runs on the earlier edits of each machine. This decides nothing: it
    measures how scores grow with revisions (the paper's Figure 5)."""
    temperature: float = Field(default=0.5, ge=0, le=2)
    """Sampling temperature of testing and editing, where the model takes one."""
    # The paper's machines approve what they saw run.
    approve_ahead: bool = True
    """Whether a reply may approve its script or edit before it runs."""
    orm_weight: float | None = Field(default=None, ge=0, le=100)
    """How much of an outcome reward `evidence` adds to the log-odds of edits that are nearly
    equal; None: the operator's. `learn judge` says which weight was best."""
    # The paper writes edits for every issue.
    triage: bool = True
    """Whether the first samples' tests may end the run: there is nothing to fix, or no longer."""
    # The paper submits what it selects.
    gate: bool = True
    """Whether the chosen edit must pass a script that fails without it, and break none of the
    repository's tests."""
    without: tuple[Addition, ...] = ()
    """What is left out of what the papers do not have: people's `comments` on the issue; a
    `ranking` before a search, unless that finds nothing; the repository's `habits` and the nearest
    test, where edits are written; `other files` than sources of the main language outside its
    tests, where relevant ones are looked for; `checks` that send an edit back before it runs or
    reject it; counting `equal tests` once; telling the selection machine of `other edits` than
    those between which it chooses."""
    dollars: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    """Ceiling for the whole run at list prices, checked before every call. The paper has none."""
    test_command: tuple[str, ...] = ()
    """The repository's test command; empty: detected."""
    recalibration: Recalibration | None = None
    """The correction of the confidence by the repository's own history; None: none is known."""
    prefilter: Literal["auto", "always", "never"] = "auto"
    """Whether only the files that share most words with the issue are read. `auto`: in repositories
    with more than `prefilter_above` source files. The paper reads every file."""
    prefilter_above: int = Field(default=5_000, ge=0)
    """The number of source files above which `auto` reads only some of them."""
    prefilter_keep: int = Field(default=2_000, ge=1)
    """How many files are then read."""

    @property
    def searches(self) -> bool:
        """Whether edits start from a search for the lines to change."""
        return self.strategy in ("search", "swe_reasoner")
