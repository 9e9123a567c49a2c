"""`python -m sandbox.docker.ping`: does Docker answer? If not, prints one sentence to stderr."""

from __future__ import annotations

import sys
from contextlib import closing

from sandbox.docker.docker_client import connect, translate_docker_errors
from sandbox.errors import SandboxUnavailable


def main() -> int:
    try:
        with closing(connect(None)) as client, translate_docker_errors("Docker does not answer"):
            client.ping()
    except SandboxUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
