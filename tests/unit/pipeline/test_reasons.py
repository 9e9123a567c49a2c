"""Sentences for the maintainer."""

import time

import pytest

from pipeline.reasons import MOST_HOSTS, find_blocked_hosts
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
SAYS: dict[str, str] = TEXTS["SAYS"]


@pytest.mark.parametrize(("output", "host"), SAYS.items())
def test_the_host_in_a_message_is_found_once(output: str, host: str) -> None:
    found = find_blocked_hosts([output, f"...\n{output}\n"])
    assert (found.hosts, found.more, found.nameless) == ((host,), 0, False)


@pytest.mark.parametrize(
    "output",
    [
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "<urlopen error [Errno -2] Name or service not known>",
        "OSError: [Errno 101] Network is unreachable",
        "connect ENETUNREACH 2001:db8::1:443 - Local (:::0)",
    ],
)
def test_a_message_without_a_host_is_reported_as_it_is(output: str) -> None:
    assert (find_blocked_hosts([output]).hosts, find_blocked_hosts([output]).nameless) == ((), True)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "1 failed: assert -1 == 3",
        "see https://example.org/ for more",
        "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect",
        "curl: (7) Failed to connect to ::1 port 1 after 0 ms: Couldn't connect",
        "Cannot connect to host localhost:8080 ssl:default [Connect call failed]",
        "HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded with url: /",
        "Could not resolve host: `rm -rf`",
        "Could not resolve host: <b>x</b>",
    ],
)
def test_nothing_else_is_found(output: str) -> None:
    found = find_blocked_hosts([output])
    assert (found.hosts, found.nameless) == ((), False)


def test_what_is_kept_is_bounded_whatever_is_printed() -> None:
    many = "\n".join(f"Could not resolve host: h{n}.example.org" for n in range(5_000))
    found = find_blocked_hosts([many, "Could not resolve host: " + "a" * 100_000])
    assert (len(found.hosts), found.more) == (MOST_HOSTS, 5_000 - MOST_HOSTS)
    assert all(len(host) <= 253 for host in found.hosts)


def test_hostile_output_does_not_take_long() -> None:
    begun = time.process_time()
    find_blocked_hosts(
        ["Could not resolve host: " + "a." * 100_000, "host='" * 50_000, "a" * 1_000_000]
    )
    assert time.process_time() - begun < 5
