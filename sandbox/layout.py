"""Paths, users and labels that all backends share."""

from typing import Final

UID: Final = 10001
USER: Final = f"{UID}:{UID}"
LABEL_RUN: Final = "capuchin.run"
"""On every container: the run that it works for, or empty."""
LABEL_OWNER: Final = "capuchin.owner"
"""On every container: the installation that it belongs to; only that one removes it."""
LABEL_KIND: Final = "capuchin.kind"
"""On containers: `build`, `network`, `execution` (cold) or `lane` (warm).
On images: `base`, `tools`, `rooted`, `dependencies` or `tree`."""

LABEL_INSTALLATION: Final = "capuchin.installation"
"""On images: what the installer recorded, as JSON."""

CHECKOUT: Final = "/testbed"
"""Where the program under test finds the repository; the editable install points here."""
TREE: Final = "/opt/tree"
"""Where the image holds the installed tree; every execution gets a copy as its checkout."""
ENVIRONMENT: Final = "/opt/env"
HOME: Final = "/tmp/home"  # noqa: S108 - a file system of its own in the container
KEPT_HOME: Final = f"{ENVIRONMENT}/home"
"""Where the image holds what builds left at home; every execution gets a copy as its home."""
SYSTEM_PYTHON: Final = "/opt/capuchin/python"
"""The base image's own Python, which our programs run on: the environment's may be too old."""
PROGRAM_ENVIRONMENT: Final = {
    "PATH": f"{ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
    "VIRTUAL_ENV": ENVIRONMENT,
    # Not /tmp itself: programs that keep data at home met those that make temporary files.
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
}
"""All environment variables that the program under test sees."""
