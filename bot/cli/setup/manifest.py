"""The App's manifest: `app.yml`, with the addresses of this Capuchin filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

import yaml

_PACKAGED_PATH: Final = Path(__file__).parents[2] / "app.yml"
"""Its place in an installed package."""
_SOURCE_PATH: Final = Path(__file__).parents[3] / "app.yml"
"""Its place in the repository."""
MAX_NAME_LENGTH: Final = 34
"""GitHub's limit for an App's name."""


def build_manifest(
    *, name: str, public_url: str, redirect_url: str, webhook: bool = True
) -> dict[str, Any]:
    """The manifest from which GitHub creates the App.

    `public_url` is the address of `capuchin serve`; GitHub redirects the browser to `redirect_url`.
    Without `webhook` it sends no events.
    """
    place = _PACKAGED_PATH if _PACKAGED_PATH.is_file() else _SOURCE_PATH
    written = cast("dict[str, Any]", yaml.safe_load(place.read_text(encoding="utf-8")))
    hook = {"url": f"{public_url.rstrip('/')}/webhook", "active": True}
    manifest = {
        **written,
        "name": name or written["name"],
        # GitHub wants an address also of a hook that is switched off.
        "hook_attributes": hook if webhook else {"url": written["url"], "active": False},
        "redirect_url": redirect_url,
    }
    return manifest if webhook else {**manifest, "default_events": []}
