"""What can be set about one run of the pipeline."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SelectionMethod = Literal[
    "evidence", "voting", "model", "top3", "machine", "exec", "orm_exec", "ast_voting", "dev_search"
]
"""The ways of choosing among edits; `pipeline.selection.methods` says what each is."""


class Options(BaseModel):
    """Defaults are the paper's (CodeMonkeys, Table 4) unless said otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=10, ge=1, le=100)
    """Independent testing and editing machines."""
    adaptive: bool = True
    """Start samples in waves and stop when they agree; False: all of them, as the paper does."""
    first_wave: int = Field(default=4, ge=1, le=100)
    """Samples in each wave when `adaptive`."""
    agreement: int = Field(default=3, ge=2, le=100)
    """Independent samples that must agree before no more are started, when `adaptive`."""
    approaches: bool = True
    """Draw different approaches from the issue alone, one a sample. The paper draws none."""
    informed: float = Field(default=0.3, ge=0, le=1)
    """The share of samples, rounded down, that see what finished ones tried and must differ. The
    paper has none."""
    attempts: int = Field(default=8, ge=1, le=50)
    """Model replies per testing or editing machine; malformed ones count."""
    selection_attempts: int = Field(default=10, ge=1, le=50)
    finalists: int = Field(default=3, ge=1, le=20)
    selection: SelectionMethod = "evidence"
    """How one of several edits is chosen. The paper's best is `machine`."""
    all_tests_vote: bool = False
    """Whether tests vote that do not fail on the unedited code. The paper counts them."""
    repeat_tests: int = Field(default=1, ge=0, le=10)
    """How often each voting test is run again on the unedited code and on one edit that passes it,
    to find flaky ones; 0: none is looked for. The paper looks for none."""
    confidence: float = Field(default=0.2, ge=0, le=1)
    """The least probability of being right with which an edit is proposed; 0: any. The default
    keeps back what is wrong more often than four times in five. The paper proposes always."""
    execution_seconds: float = Field(default=100, gt=0, le=3600)
    """Wall clock for one reproduction script."""
    suite_seconds: float = Field(default=900, gt=0, le=6 * 3600)
    """Wall clock for the repository's own tests, once on the unedited code and on each finalist; of
    a suite that takes longer, the tests that matter most for an edit are run."""
    nearby_seconds: float = Field(default=60, ge=0, le=3600)
    """Wall clock for the few tests of the repository that are about the files an edit changes, run
    after each edit; 0: they are not run before the choice. The paper has none."""
    scout_threshold: float = Field(default=0, ge=0, lt=1)
    """Above 0 the scout first gives one word on each file, and a summary only of those that are
    relevant with at least this probability. The paper asks for both at once."""
    rankings: int = Field(default=3, ge=1, le=9)
    """How many orders of the relevant files are asked for and merged."""
    context_tokens: int = Field(default=60_000, ge=1_000)
    """What the solver is asked to keep to when it orders the files for the editing machines."""
    context_cap: int = Field(default=128_000, ge=1_000)
    """What it ordered is shown up to this many tokens."""
    all_revisions: bool = False
    """Whether every test is run on the earlier edits of each machine, too. Nothing is decided by
    it: evaluation shows with it how scores grow with revisions (the paper's Figure 5)."""
    temperature: float = Field(default=0.5, ge=0, le=2)
    """Sampling temperature of testing and editing, where the model takes one."""
    thinking_tokens: int = Field(default=0, ge=0, le=64_000)
    """What the solver may think in tokens before each reply, where it can be told so (Anthropic's
    models, vLLM with a reasoning parser); 0: it is not told. The paper's model did not."""
    batch: bool = False
    """Ask what opens a conversation in batches, at half the price and hours later, where the
    provider offers that."""
    dollars: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    """Ceiling for the whole run at list prices, checked before every call. The paper has none."""
    test_command: tuple[str, ...] = ()
    """The repository's own test command; empty means detect it."""
    never_touch: tuple[str, ...] = ()
    """Glob patterns of paths that an edit may not change, beside those that none ever may."""
    allow_lock_files: bool = False
    """Whether an edit may change lock files of package managers."""
    include: tuple[str, ...] = ()
    """Glob patterns of the only files that are read to find what matters; empty: all."""
    exclude: tuple[str, ...] = ()
    """Glob patterns of files that are not read to find what matters."""
    prefilter: Literal["auto", "always", "never"] = "auto"
    """Whether only those files are read that share most words with the issue; `auto`: in
    repositories with more than `prefilter_above`. The paper reads every file."""
    prefilter_above: int = Field(default=5_000, ge=0)
    """Source files."""
    prefilter_keep: int = Field(default=2_000, ge=1)
    """How many files are read then."""
