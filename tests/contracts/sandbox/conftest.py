from __future__ import annotations

from tests.docker import ca_bundle, daemon, engine, prepared, run_id, sandbox

__all__ = ["ca_bundle", "daemon", "engine", "prepared", "run_id", "sandbox"]
