"""The SDKs read proxies from the environment; the recorded service is behind none."""

import os

import pytest

_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):  # noqa: TID251 - taken away, not read
        if name.upper() in _PROXIES:
            monkeypatch.delenv(name)
