"""The port of the demo's Redis."""

import socket

from capuchin_demo.environment import find_free_port


def test_a_free_port_is_none_that_the_system_gives_to_others() -> None:
    found = {find_free_port() for _ in range(20)}
    assert len(found) > 1
    assert max(found) < 32768


def test_a_port_that_is_taken_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", find_free_port())) as taken:
        assert taken.getsockname()[1] not in {find_free_port() for _ in range(100)}
