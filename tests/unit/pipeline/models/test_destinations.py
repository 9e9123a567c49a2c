"""Which hosts are certain to be the operator's own; what is not certain is somebody else's."""

from __future__ import annotations

import pytest

from pipeline.models.spec import UNKNOWN_HOST, destinations, is_own


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "http://127.9.9.9/v1",
        "http://LOCALHOST:8000/v1",
        "http://localhost./v1",
        "http://10.1.2.3/v1",
        "http://172.31.0.1/v1",
        "http://192.168.1.4/v1",
        "http://169.254.3.4/v1",
        "http://[::1]:8000/v1",
        "http://[fd00::5]/v1",
        "http://[fe80::1]/v1",
        "http://[::ffff:10.0.0.1]/v1",
    ],
)
def test_loopback_and_private_addresses_are_own(url: str) -> None:
    assert all(is_own(host) for host in destinations(url))


@pytest.mark.parametrize(
    "host",
    [
        "api.anthropic.com",
        "8.8.8.8",
        "172.32.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "192.0.2.1",
        "2001:db8::1",
        "::ffff:8.8.8.8",
        "127.1",
        "2130706433",
        "0x7f000001",
        "10.0.0.1.nip.io",
        "localhost.example.org",
        "vllm",
        "vllm.internal",
        UNKNOWN_HOST,
    ],
)
def test_what_is_not_certain_is_not_own(host: str) -> None:
    assert not is_own(host)


def test_names_are_own_if_the_operator_says_so_and_nobody_sells_there() -> None:
    declared = (" VLLM ", "gpu.example.org.", ".lan", "api.openai.com", "", ".")
    assert all(is_own(host, declared) for host in ("vllm", "gpu.example.org", "a.b.lan", "A.LAN."))
    others = ("lan", "xvllm", "b.gpu.example.org", "api.openai.com", "evil.lan.example.org", "")
    assert not any(is_own(host, declared) for host in others)


def test_a_proxy_on_the_way_is_a_destination_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    monkeypatch.setenv("no_proxy", "localhost,10.0.0.7")
    assert destinations("http://10.0.0.5/v1") == ("10.0.0.5", "proxy.example.org")
    assert destinations("http://10.0.0.7/v1") == ("10.0.0.7",)
    assert destinations("http://localhost:1/v1") == ("localhost",)
