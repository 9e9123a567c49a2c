"""The certificates that builds in containers trust."""

from pathlib import Path


def host_certificates() -> str:
    """For installing packages on networks with an authority of their own; empty for none."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    return str(bundle) if bundle.is_file() else ""
