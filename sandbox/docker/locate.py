"""Where Docker's own client would look for the daemon."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

SOCKET: Final = "unix:///var/run/docker.sock"
_OTHERS: Final = (
    *(".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock"),
    *(".orbstack/run/docker.sock", ".rd/docker.sock", ".lima/docker/sock/docker.sock"),
)
"""Below the home folder: Desktop's, colima's, OrbStack's, Rancher Desktop's and lima's."""


class DaemonPlace(NamedTuple):
    url: str
    tls: Path | None = None
    """A folder with the certificates, as `DOCKER_CERT_PATH` names it."""


def find_daemon(environ: Mapping[str, str] | None = None) -> DaemonPlace:
    """`DOCKER_HOST`, the context in use, the socket of the system or, without it, of the user.

    https://docs.docker.com/engine/manage-resources/contexts/
    """
    env: Mapping[str, str] = os.environ if environ is None else environ  # noqa: TID251 - Docker's
    if host := env.get("DOCKER_HOST"):
        verifies = env.get("DOCKER_TLS_VERIFY") and env.get("DOCKER_CERT_PATH")
        return DaemonPlace(host, Path(env["DOCKER_CERT_PATH"]) if verifies else None)
    home = Path(env.get("HOME") or "/nonexistent")
    config = Path(env.get("DOCKER_CONFIG") or home / ".docker")
    if url := _context_url(config, env.get("DOCKER_CONTEXT", "")):
        return DaemonPlace(url)
    runtime = Path(env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    places = (runtime / "docker.sock", *(home / name for name in _OTHERS))
    if not Path(SOCKET.removeprefix("unix://")).exists():
        found = next((place for place in places if place.is_socket()), None)
        return DaemonPlace(f"unix://{found}" if found else SOCKET)
    return DaemonPlace(SOCKET)


def _context_url(config: Path, name: str) -> str:
    """The address of a context; "" for the default one, or if it cannot be read."""
    name = name or str(_read(config / "config.json").get("currentContext") or "")
    if not name or name == "default":
        return ""
    folder = hashlib.sha256(name.encode()).hexdigest()
    endpoints = _read(config / "contexts/meta" / folder / "meta.json").get("Endpoints")
    docker = cast(dict[str, Any], endpoints).get("docker") if isinstance(endpoints, dict) else None
    return str(cast(dict[str, Any], docker).get("Host") or "") if isinstance(docker, dict) else ""


def _read(path: Path) -> dict[str, Any]:
    try:
        document: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast(dict[str, Any], document) if isinstance(document, dict) else {}
