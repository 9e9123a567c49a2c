"""A running hub with `acme/shop`, and a git client without our configuration."""

import pytest

from capuchin_demo.hub.state import Repo
from tests.support.github.hub import LocalHub


@pytest.fixture
def repo(hub: LocalHub) -> Repo:
    one = hub.add_repo("acme/shop", {"shop.py": "def total(a, b):\n    return a - b\n"})
    one.grant("alice", "write")
    one.grant("bob", "read")
    return one
