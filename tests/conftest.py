"""Fixtures that every folder may use."""

pytest_plugins = ("tests.redis", "tests.hub", "tests.paid")
