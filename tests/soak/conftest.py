from tests.support.docker import ca_bundle, daemon, engine, mode, prepared

__all__ = ["ca_bundle", "daemon", "engine", "mode", "prepared"]
