"""Real Redis servers in the forms that operators run them: Sentinels, and TLS with users."""

import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

from redis import Redis
from redis.exceptions import RedisError

from capuchin_demo.environment import find_free_port
from tests.support.serving import wait_until

DOWN_MS: Final = 5_000
"""For so long a busy machine may stand still, and no Sentinel replaces a primary that lives."""
FAILOVER_MS: Final = 30_000
"""Where the Sentinels' votes are split, they elect again after twice as long."""
AWAY: Final = (RedisError, OSError)
"""A server that is not there yet."""
SERVICE: Final = "capuchin"
PASSWORD: Final = "pass:word+/@"


@contextmanager
def run_server(folder: Path, *options: str) -> Generator[subprocess.Popen[bytes]]:
    """A redis-server, or a Sentinel, with its files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(["redis-server", *options], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def run_sentinels(folder: Path) -> Generator[tuple[str, subprocess.Popen[bytes], int]]:
    """Three Sentinels, a primary and its replica: the address, and the primary with its port."""
    with ExitStack() as stack:
        first, second = find_free_port(), find_free_port()
        common = ("--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", "--save", "")
        primary = stack.enter_context(run_server(folder / "primary", "--port", str(first), *common))
        follow = ("--replicaof", f"127.0.0.1 {first}")
        stack.enter_context(run_server(folder / "replica", "--port", str(second), *common, *follow))
        replication = Redis(port=first)
        wait_until(lambda: f"{_info(replication)['connected_slaves']}" == "1", *AWAY)
        wait_until(
            lambda: cast("dict[str, Any]", _info(replication)["slave0"])["state"] == "online", *AWAY
        )
        replication.close()
        sentinels = [find_free_port() for _ in range(3)]
        for port in sentinels:
            config = folder / f"sentinel-{port}" / "sentinel.conf"
            config.parent.mkdir()
            config.write_text(
                f"port {port}\nbind 127.0.0.1\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {first} 2\n"
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS}\n"
                f"sentinel failover-timeout {SERVICE} {FAILOVER_MS}\n"
            )
            stack.enter_context(run_server(config.parent, str(config), "--sentinel"))
        for port in sentinels:
            asked = Redis(port=port)
            wait_until(lambda client=asked: _knows_all(client), *AWAY)
            asked.close()
        places = ",".join(f"127.0.0.1:{port}" for port in sentinels)
        yield f"redis+sentinel://{places}/{SERVICE}/0", primary, first


@contextmanager
def run_one_sentinel(folder: Path) -> Generator[str]:
    """A Sentinel and its primary: the address."""
    primary, port = find_free_port(), find_free_port()
    config = folder / "sentinel" / "sentinel.conf"
    config.parent.mkdir()
    config.write_text(
        f"port {port}\nbind 127.0.0.1\nsentinel monitor {SERVICE} 127.0.0.1 {primary} 1\n"
    )
    common = ("--bind", "127.0.0.1", "--save", "")
    with (
        run_server(folder / "primary", "--port", str(primary), *common),
        Redis(port=primary) as asked,
    ):
        wait_until(cast(Any, asked).ping, *AWAY)
        with run_server(config.parent, str(config), "--sentinel"), Redis(port=port) as sentinel:
            wait_until(cast(Any, sentinel).ping, *AWAY)
            yield f"redis+sentinel://127.0.0.1:{port}/{SERVICE}/0"


@contextmanager
def run_with_tls(folder: Path) -> Generator[tuple[str, Path]]:
    """A Redis that takes only TLS and one user: `HOST:PORT`, and the certificate to trust."""
    folder.mkdir(exist_ok=True)
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    users = folder / "users.acl"
    allowed = "~capuchin:* ~arq:*:capuchin:* ~arq:abort +@all -@admin -flushall -flushdb"
    users.write_text(f"user default off\nuser capuchin on >{PASSWORD} {allowed}\n")
    port = find_free_port()
    with run_server(
        folder / "data", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1",
        "--tls-cert-file", str(key.with_name("certificate.pem")), "--tls-key-file", str(key),
        "--tls-auth-clients", "no", "--aclfile", str(users), "--save", "",
    ):  # fmt: skip
        login: dict[str, Any] = {"username": "capuchin", "password": PASSWORD}
        options = login | {"ssl": True, "ssl_ca_certs": str(certificate)}
        with cast(Any, Redis)(port=port, **options) as client:
            wait_until(client.ping, *AWAY)
        yield f"127.0.0.1:{port}", certificate


def _info(client: Redis) -> dict[str, Any]:
    return cast("dict[str, Any]", client.info("replication"))


def _knows_all(sentinel: Redis) -> bool:
    state = cast("dict[str, Any]", cast(Any, sentinel).sentinel_master(SERVICE))
    return state["num-slaves"] == 1 and state["num-other-sentinels"] == 2
