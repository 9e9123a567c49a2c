from __future__ import annotations

import pytest

from tests.support.docker import (
    ca_bundle,
    daemon,
    engine,
    execute,
    mode,
    open_sandbox,
    own_sandbox,
    prepared,
    run_id,
    sandbox,
)

__all__ = [
    "ca_bundle",
    "daemon",
    "engine",
    "execute",
    "mode",
    "open_sandbox",
    "own_sandbox",
    "prepared",
    "run_id",
    "sandbox",
]

CONTRACTS = ("command", "execution", "isolation", "limits")

pytest.register_assert_rewrite(*(f"tests.contracts.sandbox.{name}_contract" for name in CONTRACTS))
