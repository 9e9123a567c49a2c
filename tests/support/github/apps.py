"""Receives the form by which a set-up page creates an App.

https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

import json
import re
import secrets
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from capuchin_demo.hub.tokens import LEVELS, generate_app
from tests.support.github.hub_state import GitHubState

MANIFEST_KEYS = frozenset(
    {"name", "url", "hook_attributes", "redirect_url", "callback_urls", "setup_url", "description",
     "public", "default_events", "default_permissions", "request_oauth_on_install",
     "setup_on_update"}
)  # fmt: skip


class RegistrationRouter:
    def __init__(self, state: GitHubState) -> None:
        self._state = state

    async def handle(self, request: Request) -> Response:
        """Create the App and redirect the browser, or describe the manifest's error."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        try:
            manifest: Any = json.loads(form.get("manifest", [""])[0])
        except ValueError:
            manifest = None
        wrong = _manifest_problem(manifest)
        if wrong:
            return PlainTextResponse(f"Invalid GitHub App configuration: {wrong}", 422)
        slug = re.sub(r"[^a-z0-9]+", "-", manifest["name"].lower()).strip("-")
        app = replace(
            generate_app(self._state.next_id(), slug),
            permissions=manifest["default_permissions"],
            events=tuple(manifest["default_events"]),
        )
        active = manifest["hook_attributes"].get("active", True)
        secret = secrets.token_hex(20) if active else ""
        self._state.switch_app(app, secret)
        code = secrets.token_hex(20)
        self._state.new_apps[code] = app, secret
        self._state.app_owners.append(request.path_params.get("org", ""))
        state = request.query_params.get("state")
        query = urlencode({"code": code} | ({"state": state} if state is not None else {}))
        return RedirectResponse(f"{manifest['redirect_url']}?{query}", 302)


def _manifest_problem(manifest: Any) -> str:
    """Why GitHub would reject the manifest; empty if it is valid."""
    if not isinstance(manifest, dict):
        return "not a JSON object"
    given = cast("dict[str, Any]", manifest)
    if unknown := given.keys() - MANIFEST_KEYS:
        return f"unknown {min(unknown)}"
    for key in ("name", "url", "redirect_url"):
        if not given.get(key):
            return f"{key} is missing"
    if len(given["name"]) > 34:
        return "name is too long"
    if not given.get("hook_attributes", {}).get("url"):
        return "hook_attributes.url is missing"
    levels = given.get("default_permissions", {}).values()
    return "" if set(levels) <= set(LEVELS) else "no such permission"
