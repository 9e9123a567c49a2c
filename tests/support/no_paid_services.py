"""No test can reach a paid service: neither by a key of the environment nor by name."""

import os
import sys

import pytest

from pipeline.models.spec import price_table

_PREFIXES = ("ANTHROPIC_", "OPENAI_", "CAPUCHIN_")


class PaidServiceReached(BaseException):
    """Not an Exception, so that no client can take it for a network error and retry."""


def _refuse_paid_hosts(event: str, arguments: tuple[object, ...]) -> None:
    if event != "socket.getaddrinfo":
        return
    host = arguments[0].decode() if isinstance(arguments[0], bytes) else str(arguments[0])
    if any(host == paid or host.endswith(f".{paid}") for paid in price_table().paid_hosts):
        raise PaidServiceReached(f"a test asked for the address of {host}")


@pytest.fixture(scope="session", autouse=True)
def refuse_paid_hosts() -> None:
    """Lasts as long as the process: Python has no way to remove an audit hook."""
    sys.addaudithook(_refuse_paid_hosts)


@pytest.fixture(autouse=True)
def remove_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):  # noqa: TID251 - the keys are taken away, none is read
        if name.startswith(_PREFIXES):
            monkeypatch.delenv(name)
