"""The address of a run's page. Anybody with the address can open the page."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from bot.data.run import RunId
from bot.settings import Settings

KEY_CHARACTERS: Final = 32
"""128 bits: too many to guess."""


def page_key(settings: Settings, run_id: RunId) -> str:
    """The key to one run's page; empty without a webhook secret to derive it from."""
    secret = settings.webhook_secret.get_secret_value()
    if not secret:
        return ""
    message = f"capuchin run page {run_id}".encode()
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()[:KEY_CHARACTERS]


def run_page_url(settings: Settings, run_id: RunId) -> str:
    """The page's address for the status comment; empty without a public address."""
    key = page_key(settings, run_id)
    if not settings.public_url or not key:
        return ""
    return f"{settings.public_url.rstrip('/')}/runs/{run_id}?key={key}"
