"""Those attacks, on sandboxes of this machine's Docker."""

from __future__ import annotations

from tests.safety.privilege_attacks import *  # noqa: F403 - the tests themselves
