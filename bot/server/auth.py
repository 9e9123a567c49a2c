"""Access to the pages: by the operator's token, or for one run by the key in its address."""

from __future__ import annotations

import base64
import binascii
import hmac

from starlette.requests import Request

from bot.links import page_key
from bot.settings import Settings
from bot.types import RunId


def may_see_all(settings: Settings, request: Request) -> bool:
    """The token came as `Authorization: Bearer`, or as the password of `Basic` with any name.

    Without a token set nobody may.
    """
    wanted = settings.dashboard_token.get_secret_value()
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        given = _parse_password(given)
    elif scheme.lower() != "bearer":
        return False
    return bool(wanted) and _is_same(given.strip(), wanted)


def may_see_run(settings: Settings, request: Request, run_id: RunId) -> bool:
    """As `may_see_all`, or the address is the one that the run's own issue shows."""
    wanted = page_key(settings, run_id)
    given = request.query_params.get("key", "")
    return (bool(wanted) and _is_same(given, wanted)) or may_see_all(settings, request)


def _parse_password(credentials: str) -> str:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]


def _is_same(given: str, wanted: str) -> bool:
    """In constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
