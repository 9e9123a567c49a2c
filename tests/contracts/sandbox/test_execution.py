"""The contract of an execution, held by Docker's own runtime."""

from __future__ import annotations

from tests.contracts.sandbox.command_contract import *  # noqa: F403
from tests.contracts.sandbox.execution_contract import *  # noqa: F403 - the tests themselves
