"""What tests read and run, in a file beside them."""

import tomllib
from pathlib import Path
from typing import Any


def texts_of(file: str) -> dict[str, Any]:
    """What `NAME.toml` holds beside the module `NAME.py`."""
    return tomllib.loads(Path(file).with_suffix(".toml").read_text("utf-8"))
