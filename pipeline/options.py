"""What can be set about one run of the pipeline."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Options(BaseModel):
    """Defaults are the paper's (CodeMonkeys, Table 4) unless said otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=10, ge=1, le=100)
    """Independent testing and editing machines."""
    adaptive: bool = True
    """Start samples in waves and stop when they agree; False: all of them, as the paper does."""
    first_wave: int = Field(default=4, ge=1, le=100)
    """Samples in each wave when `adaptive`."""
    approaches: bool = True
    """Draw different approaches from the issue alone, one a sample. The paper draws none."""
    informed: float = Field(default=0.3, ge=0, le=1)
    """The share of samples, rounded down, that see what finished ones tried and must differ. The
    paper has none."""
    attempts: int = Field(default=8, ge=1, le=50)
    """Model replies per testing or editing machine; malformed ones count."""
    selection_attempts: int = Field(default=10, ge=1, le=50)
    finalists: int = Field(default=3, ge=1, le=20)
    execution_seconds: float = Field(default=100, gt=0, le=3600)
    """Wall clock for one reproduction script."""
    suite_seconds: float = Field(default=900, gt=0, le=6 * 3600)
    """Wall clock for the repository's own tests."""
    nearby_seconds: float = Field(default=60, ge=0, le=3600)
    """Wall clock for the few tests of the repository that are about the files an edit changes, run
    after each edit; 0: they are not run before the choice. The paper has none."""
    rankings: int = Field(default=3, ge=1, le=9)
    """How many orders of the relevant files are asked for and merged."""
    context_tokens: int = Field(default=60_000, ge=1_000)
    """Budget for the files shown to the editing machines."""
    temperature: float = Field(default=0.5, ge=0, le=2)
    """Sampling temperature of testing and editing, where the model takes one."""
    dollars: float = Field(default=10.0, gt=0)
    """Ceiling for the whole run at list prices, checked before every call. The paper has none."""
    test_command: tuple[str, ...] = ()
    """The repository's own test command; empty means detect it."""
    never_touch: tuple[str, ...] = ()
    """Glob patterns of paths that an edit may not change, beside those that none ever may."""
    allow_lock_files: bool = False
    """Whether an edit may change lock files of package managers."""
