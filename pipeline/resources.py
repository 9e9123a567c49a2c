"""What every step of a run works with."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.store import Store
from sandbox.base import Sandbox


@dataclass(frozen=True)
class Resources:
    """One `store` is for one issue at one commit; `sandbox` holds `codebase`."""

    model: Model
    """The solver: it writes tests and edits."""
    sandbox: Sandbox
    codebase: Codebase
    store: Store
    options: Options
