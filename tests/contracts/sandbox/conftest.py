import pytest

from tests.support.docker import *  # noqa: F403 - the fixtures

CONTRACTS = ("command", "execution", "isolation", "limits")

pytest.register_assert_rewrite(*(f"tests.contracts.sandbox.{name}_contract" for name in CONTRACTS))
