"""Docker's daemon is looked for where Docker's own client looks."""

import hashlib
import json
import socket
from pathlib import Path

import pytest

from sandbox.docker import locate
from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.locate import SOCKET, DaemonPlace, find_daemon


def write_context(config: Path, name: str, url: str) -> None:
    folder = config / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    meta = {"Name": name, "Endpoints": {"docker": {"Host": url}}}
    (folder / "meta.json").write_text(json.dumps(meta))


def test_docker_host_comes_before_all(tmp_path: Path) -> None:
    env = {"DOCKER_HOST": "tcp://build.lan:2376", "HOME": str(tmp_path), "DOCKER_CONTEXT": "desk"}
    assert find_daemon(env) == DaemonPlace("tcp://build.lan:2376")
    secure = {**env, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"}
    assert find_daemon(secure).tls == Path("/certs")


def test_the_context_in_use_is_followed(tmp_path: Path) -> None:
    config = tmp_path / ".docker"
    write_context(config, "colima", "unix:///home/me/.colima/default/docker.sock")
    (config / "config.json").write_text('{"currentContext": "colima"}')
    env = {"HOME": str(tmp_path)}
    assert find_daemon(env).url == "unix:///home/me/.colima/default/docker.sock"
    assert find_daemon({**env, "DOCKER_CONTEXT": "default"}).url == SOCKET
    (config / "config.json").write_text("[nonsense")
    assert find_daemon(env).url == SOCKET


def test_a_rootless_daemon_is_found_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "SOCKET", "unix:///nonexistent/docker.sock")
    place = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
        assert find_daemon(env).url == f"unix://{place}"


def test_a_setting_of_ours_wins() -> None:
    assert DockerAddress("unix:///ours").url == "unix:///ours"
