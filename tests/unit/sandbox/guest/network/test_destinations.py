"""Where a build's connections may go."""

import re

import pytest

from sandbox.guest.network.destinations import Destinations, Refused

CLOSED = """
10.1.2.3 172.17.0.1 192.168.1.1 127.0.0.1 0.0.0.0 169.254.169.254 169.254.170.2 100.100.100.200
168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 ::1 :: fe80::1 fd00:ec2::254 fc00::1
fec0::1 ff02::1 ::ffff:10.0.0.1 ::10.0.0.1 64:ff9b::a00:1 64:ff9b:1::1 2002:a00:1:: 2001:0:1::1
2130706433 0x7f.1 127.1 localhost
"""
OPEN = ["8.8.8.8", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808"]


@pytest.mark.parametrize("host", CLOSED.split())
def test_no_private_address_is_open_however_it_is_written(host: str) -> None:
    with pytest.raises(Refused, match="CAPUCHIN_BUILD_PRIVATE_HOSTS"):
        Destinations().connect(host, 80, seconds=1)


@pytest.mark.parametrize("host", OPEN)
def test_public_addresses_are_open(host: str) -> None:
    assert Destinations().find(host, 443)
    assert Destinations().find(host, 22) == []
    assert Destinations([OPEN[0] + ":22"]).find(OPEN[0], 22)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("localhost", "localhost", 80),
        ("localhost:3141", "LOCALHOST", 3141),
        ("10.1.0.0/16", "10.1.255.1", 80),
        ("10.1.2.3:3141", "10.1.2.3", 3141),
        ("[::1]:80", "::1", 80),
        ("fd00::/8", "fd00:1::2", 80),
    ],
)
def test_what_the_operator_names_is_open(entry: str, host: str, port: int) -> None:
    assert Destinations([entry]).find(host, port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("localhost:3141", "localhost", 80),
        ("10.1.2.3:3141", "10.1.2.3", 80),
        ("10.1.0.0/16", "10.2.0.1", 80),
        ("host", "localhost", 80),
        (".host", "localhost", 80),
    ],
)
def test_and_nothing_beside_it(entry: str, host: str, port: int) -> None:
    assert Destinations([entry]).find(host, port) == []


@pytest.mark.parametrize("entry", ["http://pypi.lan", "10.0.0.0/33", "a b", "", "pypi.lan:x"])
def test_an_entry_that_says_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'"{entry}" is neither a host name nor')):
        Destinations([entry])
