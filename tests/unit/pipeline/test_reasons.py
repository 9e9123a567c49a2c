"""Sentences for the maintainer."""

import time

import pytest

from pipeline.reasons import MOST_HOSTS, find_blocked_hosts

SAYS = {
    "curl: (6) Could not resolve host: api.example.org": "api.example.org",
    "fatal: unable to access 'https://u@git.example.org/x/': Could not resolve host: "
    "git.example.org": "git.example.org",
    "ssh: Could not resolve hostname Build.example.org: Temporary failure in name "
    "resolution": "build.example.org",
    "HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple/x/ "
    "(Caused by NameResolutionError(\"HTTPSConnection(host='pypi.org', port=443): Failed to "
    "resolve 'pypi.org' ([Errno -3] Temporary failure in name resolution)\"))": "pypi.org",
    "[cause]: Error: getaddrinfo EAI_AGAIN api.example.org\n    at x (node:dns)": "api.example.org",
    "npm error request to https://registry.npmjs.org/x failed, reason: getaddrinfo ENOTFOUND "
    "registry.npmjs.org": "registry.npmjs.org",
    "wget: unable to resolve host address ‘www.example.org’": "www.example.org",
    'could not translate host name "db" to address: Name or service not known': "db",
    "Cannot connect to host a.example.org:443 ssl:default [None]": "a.example.org",
    "curl: (7) Failed to connect to 10.0.0.5 port 80 after 0 ms: Couldn't connect": "10.0.0.5",
    "curl: (7) Failed to connect to 2001:DB8::1 port 80 after 0 ms: no": "2001:db8::1",
    "connect ENETUNREACH 192.0.2.1:443 - Local (0.0.0.0:0)": "192.0.2.1",
}


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
