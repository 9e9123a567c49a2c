from __future__ import annotations

from tests.support.server_settings import runs, settings

__all__ = ["runs", "settings"]
