"""Paths, users and labels that every backend agrees on."""

from __future__ import annotations

from typing import Final

UID: Final = 10001
USER: Final = f"{UID}:{UID}"
LABEL_RUN: Final = "capuchin.run"
"""On every container: the run it works for, empty when it works for none."""
LABEL_OWNER: Final = "capuchin.owner"
"""On every container: the installation that it belongs to, and that alone may reap it."""
LABEL_KIND: Final = "capuchin.kind"
"""`build`, `execution` or `lane` on containers; `base`, `dependencies` or `tree` on images."""


CHECKOUT: Final = "/testbed"
"""Where the program under test finds the repository, and where the editable install points."""
TREE: Final = "/opt/tree"
"""Where the image keeps the installed tree; copied to the checkout for each execution."""
ENVIRONMENT: Final = "/opt/env"
PROGRAM_ENVIRONMENT: Final = {
    "PATH": f"{ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
    "VIRTUAL_ENV": ENVIRONMENT,
    "HOME": "/tmp",  # noqa: S108 - a file system of its own in the container
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
}
"""All that the program under test sees of an environment."""
