from __future__ import annotations

from tests.e2e.commands.conftest import crew, crew_up
from tests.e2e.publishing.conftest import office

__all__ = ["crew", "crew_up", "office"]
