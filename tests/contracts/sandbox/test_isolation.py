"""The isolation, held by Docker's own runtime."""

from tests.contracts.sandbox.isolation_contract import *  # noqa: F403 - the tests themselves
