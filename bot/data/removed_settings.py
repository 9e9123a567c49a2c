"""What earlier versions could set, and what to do without, by name: `removed_settings.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

REMOVED: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
"""`variables`, without `CAPUCHIN_`, and `keys`."""
