from tests.support.server_settings import runs, settings, storage

__all__ = ["runs", "settings", "storage"]
