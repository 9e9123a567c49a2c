"""Accounts, the App, and its installations."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from bot.localhub.identity import AppIdentity
from bot.localhub.state import AppInstallation, User, node_id, now, stamp

Json = dict[str, Any]

CREATED = "2020-01-01T00:00:00Z"


def user(url: str, account: User) -> Json:
    """`simple-user`."""
    api = f"{url}/api/v3/users/{quote(account.login)}"
    page = f"apps/{account.login.removesuffix('[bot]')}" if account.type == "Bot" else account.login
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id("U", account.id),
        "avatar_url": f"{url}/avatars/{account.id}",
        "gravatar_id": "",
        "url": api,
        "html_url": f"{url}/{page}",
        "followers_url": f"{api}/followers",
        "following_url": f"{api}/following{{/other_user}}",
        "gists_url": f"{api}/gists{{/gist_id}}",
        "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{api}/subscriptions",
        "organizations_url": f"{api}/orgs",
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events{{/privacy}}",
        "received_events_url": f"{api}/received_events",
        "type": account.type,
        "site_admin": False,
    }


def public_user(url: str, account: User) -> Json:
    """`public-user`, the response of `GET /users/{name}`."""
    unknown = ("company", "location", "email", "hireable", "bio", "twitter_username")
    return {
        **user(url, account),
        **dict.fromkeys(unknown),
        "user_view_type": "public",
        "name": account.login,
        "blog": "",
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": stamp(account.created_at),
        "updated_at": stamp(account.created_at),
    }


def app(url: str, identity: AppIdentity, owner: User) -> Json:
    """`integration`."""
    return {
        "id": identity.app_id,
        "slug": identity.slug,
        "client_id": f"Iv23li{identity.app_id:014d}",
        "node_id": node_id("A", identity.app_id),
        "owner": user(url, owner),
        "name": identity.slug,
        "description": "",
        "external_url": f"{url}/apps/{identity.slug}",
        "html_url": f"{url}/apps/{identity.slug}",
        "created_at": CREATED,
        "updated_at": CREATED,
        "permissions": dict(identity.permissions),
        "events": list(identity.events),
    }


def installation(url: str, identity: AppIdentity, one: AppInstallation) -> Json:
    """`installation`."""
    api = f"{url}/api/v3"
    return {
        "id": one.id,
        "client_id": f"Iv23li{identity.app_id:014d}",
        "account": user(url, one.account),
        "repository_selection": "selected",
        "access_tokens_url": f"{api}/app/installations/{one.id}/access_tokens",
        "repositories_url": f"{api}/installation/repositories",
        "html_url": f"{url}/organizations/{one.account.login}/settings/installations/{one.id}",
        "app_id": identity.app_id,
        "app_slug": identity.slug,
        "target_id": one.account.id,
        "target_type": one.account.type,
        "permissions": dict(one.permissions),
        "events": list(one.events),
        "created_at": stamp(one.created_at),
        "updated_at": stamp(now()),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": None,
        "suspended_at": None,
    }


def association(role: str) -> str:
    """`author_association` for a role in the repository."""
    if role == "admin":
        return "OWNER"
    return "COLLABORATOR" if role in ("triage", "write", "maintain") else "NONE"
