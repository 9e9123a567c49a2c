from __future__ import annotations

from tests.e2e.webhook.conftest import runs, settings, storage

__all__ = ["runs", "settings", "storage"]
