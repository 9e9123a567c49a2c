"""One job for a container."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.program import OutputWatch


@dataclass(frozen=True)
class Job:
    """What process 1 has to do: make a checkout, then run the steps until one fails."""

    steps: Sequence[Sequence[str]]
    checkout: str
    environment: Mapping[str, str]
    tree: str | None = None
    """The folder that is copied to the checkout first; None leaves the checkout as it is."""
    diffs: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Absolute path to text, written after the diffs."""
    capture: bool = False
    """Whether to report what the program changed in the checkout."""
    may_wait: bool = False
    """See `Program.may_wait`."""
    watch: OutputWatch | None = None
    """Its `report` may be called from any thread."""

    def to_line(self, nonce: str, cpu_seconds: float | None) -> bytes:
        """As process 1 of a cold container reads it; it enforces `cpu_seconds` if there are any."""
        job = {
            "nonce": nonce,
            "tree": self.tree,
            "checkout": self.checkout,
            "diffs": list(self.diffs),
            "files": dict(self.files),
            "steps": [list(step) for step in self.steps],
            "env": dict(self.environment),
            "cpu_seconds": cpu_seconds,
            "may_wait": self.may_wait,
            "capture": self.capture,
        }
        return json.dumps(job).encode() + b"\n"
