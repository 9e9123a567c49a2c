"""The App itself, its installations and their tokens; also accounts."""

from __future__ import annotations

import secrets
from typing import Any, cast

from bot.localhub.errors import Refusal, not_found
from bot.localhub.json import people, repositories
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.state import AppInstallation, Repo, now, stamp
from bot.localhub.tokens import LEVELS


async def show_app(call: RestCall) -> RestResponse:
    hub = call.hub
    return RestResponse(200, people.app(hub.url, hub.app, hub.bot))


async def list_deliveries(call: RestCall) -> RestResponse:
    sent = [
        {
            "id": number,
            "guid": delivery.guid,
            "delivered_at": stamp(now()),
            "redelivery": False,
            "duration": 0.03,
            "status": "OK" if delivery.status and delivery.status < 300 else delivery.error,
            "status_code": delivery.status or 0,
            "event": delivery.event,
            "action": delivery.action,
            "installation_id": None,
            "repository_id": None,
        }
        for number, delivery in enumerate(call.hub.deliveries, 1)
    ]
    return paginate(call, sent[::-1])


async def list_installations(call: RestCall) -> RestResponse:
    hub = call.hub
    every = [people.installation(hub.url, hub.app, one) for one in hub.installations.values()]
    return paginate(call, every)


async def show_repo_installation(call: RestCall) -> RestResponse:
    hub = call.hub
    repo = hub.find_repo(f"{call.parts['of']}/{call.parts['name']}")
    if repo is None or repo.installation is None:
        raise not_found()
    return RestResponse(200, people.installation(hub.url, hub.app, repo.installation))


async def create_token(call: RestCall) -> RestResponse:
    """Create a token. It may have fewer permissions than the installation, never more (422)."""
    hub = call.hub
    one = hub.installations.get(call.number("id"))
    if one is None:
        raise not_found()
    repos, permissions = _parse_repos(call, one), _parse_permissions(call, one)
    token = hub.tokens.create_for_installation(one, hub.bot, repos, permissions)
    body: dict[str, Any] = {
        "token": token.value,
        "expires_at": stamp(token.expires_at),
        "permissions": permissions,
        "repository_selection": "selected",
    }
    if repos is not None:
        body["repositories"] = [repositories.repository(hub.url, repo) for repo in repos]
    return RestResponse(201, body)


async def list_repositories(call: RestCall) -> RestResponse:
    token, hub = call.bearer, call.hub
    if token.installation is None:
        raise Refusal(403, "You must authenticate with an installation access token in order to "
                      "list repositories for an installation.")  # fmt: skip
    seen = [repo for repo in token.installation.repos if token.can_see(repo)]
    answer = paginate(
        call, [repositories.repository(hub.url, repo) for repo in seen], wrap="repositories"
    )
    return RestResponse(200, {**answer.body, "repository_selection": "selected"}, answer.headers)


async def show_user(call: RestCall) -> RestResponse:
    user = call.hub.find_user(call.parts["login"])
    if user is None:
        raise not_found()
    return RestResponse(200, people.public_user(call.hub.url, user))


async def show_rate_limit(call: RestCall) -> RestResponse:
    facts = call.hub.limit.summary()
    return RestResponse(200, {"resources": {"core": facts, "search": facts}, "rate": facts})


def _parse_repos(call: RestCall, one: AppInstallation) -> tuple[Repo, ...] | None:
    body = call.json()
    names, ids = body.get("repositories"), body.get("repository_ids")
    if names is None and ids is None:
        return None
    by_name = {repo.name.lower(): repo for repo in one.repos}
    by_id = {repo.id: repo for repo in one.repos}
    try:
        named = [by_name[str(name).lower()] for name in cast("list[Any]", names or [])]
        return (*named, *(by_id[number] for number in cast("list[Any]", ids or [])))
    except KeyError:
        raise Refusal(
            422,
            "There is at least one repository that does not exist or is not accessible to the "
            "parent installation.",
        ) from None


def _parse_permissions(call: RestCall, one: AppInstallation) -> dict[str, str]:
    asked = cast("dict[str, str] | None", call.json().get("permissions"))
    if asked is None:
        return dict(one.permissions)
    for name, level in asked.items():
        granted = one.permissions.get(name, "none")
        if level not in LEVELS or LEVELS.index(level) > LEVELS.index(granted):
            raise Refusal(422, "The permissions requested are not granted to this installation.")
    return {"metadata": "read", **asked}


async def convert_manifest(call: RestCall) -> RestResponse:
    """Exchange the code of a new App for its keys, once."""
    made = call.hub.registrations.take(call.parts["code"])
    if made is None:
        raise not_found()
    identity, secret = made
    return RestResponse(
        201,
        {
            **people.app(call.hub.url, identity, call.hub.bot),
            "client_secret": secrets.token_hex(20),
            "webhook_secret": secret or None,
            "pem": identity.private_key_pem,
        },
    )


OPERATIONS = (
    operation("POST", "/app-manifests/{code}/conversions", convert_manifest, "open"),
    operation("GET", "/app", show_app, "app"),
    operation("GET", "/app/hook/deliveries", list_deliveries, "app"),
    operation("GET", "/app/installations", list_installations, "app"),
    operation("POST", "/app/installations/{id}/access_tokens", create_token, "app"),
    operation("GET", "/repos/{of}/{name}/installation", show_repo_installation, "app"),
    operation("GET", "/installation/repositories", list_repositories),
    operation("GET", "/users/{login}", show_user),
    operation("GET", "/rate_limit", show_rate_limit),
)
