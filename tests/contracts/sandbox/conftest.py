from __future__ import annotations

import pytest

from tests.support.docker import ca_bundle, daemon, engine, mode, prepared, run_id, sandbox

__all__ = ["ca_bundle", "daemon", "engine", "mode", "prepared", "run_id", "sandbox"]

pytest.register_assert_rewrite("tests.contracts.sandbox.execution_contract")
