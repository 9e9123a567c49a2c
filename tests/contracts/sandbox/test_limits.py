"""The limits, held by Docker's own runtime."""

from tests.contracts.sandbox.limits_contract import *  # noqa: F403 - the tests themselves
