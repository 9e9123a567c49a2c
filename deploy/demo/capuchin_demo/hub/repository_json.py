"""People, Apps and repositories as GitHub's JSON."""

from typing import Any
from urllib.parse import quote

from capuchin_demo.hub.state import (
    DEFAULT_LABELS,
    AppInstallation,
    Label,
    Repo,
    User,
    node_id,
    now,
    stamp,
)
from capuchin_demo.hub.tokens import AppIdentity

Json = dict[str, Any]

CREATED = "2020-01-01T00:00:00Z"


def user(account: User) -> Json:
    """`simple-user`."""
    url = account.site.url
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


def public_user(account: User) -> Json:
    """`public-user`, the response of `GET /users/{name}`."""
    unknown = ("company", "location", "email", "hireable", "bio", "twitter_username")
    return {
        **user(account),
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


def app(identity: AppIdentity, owner: User) -> Json:
    """`integration`."""
    page = f"{owner.site.url}/apps/{identity.slug}"
    return {
        "id": identity.app_id,
        "slug": identity.slug,
        "client_id": f"Iv23li{identity.app_id:014d}",
        "node_id": node_id("A", identity.app_id),
        "owner": user(owner),
        "name": identity.slug,
        "description": "",
        "external_url": page,
        "html_url": page,
        "created_at": CREATED,
        "updated_at": CREATED,
        "permissions": dict(identity.permissions),
        "events": list(identity.events),
    }


def installation(identity: AppIdentity, one: AppInstallation) -> Json:
    """`installation`."""
    url = one.account.site.url
    api = f"{url}/api/v3"
    return {
        "id": one.id,
        "client_id": f"Iv23li{identity.app_id:014d}",
        "account": user(one.account),
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
        "suspended_by": None if one.suspended_at is None else user(one.account),
        "suspended_at": None if one.suspended_at is None else stamp(one.suspended_at),
    }


def association(role: str) -> str:
    """`author_association` for a role in the repository."""
    if role == "admin":
        return "OWNER"
    return "COLLABORATOR" if role in ("triage", "write", "maintain") else "NONE"


LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}


def minimal_repository(repo: Repo) -> Json:
    """`minimal-repository`."""
    base = repo.api_url
    return {
        "id": repo.id,
        "node_id": node_id("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "owner": user(repo.owner),
        "html_url": repo.page_url,
        "description": repo.description,
        "fork": False,
        "url": base,
        **{name: base + path for name, path in LINKS.items()},
    }


def repository(repo: Repo) -> Json:
    """`repository`, as in lists, pull requests and webhooks."""
    page = repo.page_url
    host = repo.owner.site.url.split("//")[1]
    still_open = sum(issue.state == "open" for issue in repo.issues.values())
    return {
        **minimal_repository(repo),
        "git_url": f"git://{host}/{repo.full_name}.git",
        "ssh_url": f"git@{host}:{repo.full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "license": None,
        **dict.fromkeys(
            ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size"), 0
        ),
        "open_issues": still_open,
        "open_issues_count": still_open,
        "default_branch": repo.default_branch,
        "topics": [],
        "has_issues": True,
        "has_projects": False,
        "has_wiki": False,
        "has_pages": False,
        "has_downloads": True,
        "has_discussions": False,
        "archived": repo.archived,
        "disabled": False,
        "visibility": "private" if repo.private else "public",
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "created_at": stamp(repo.created_at),
        "updated_at": stamp(repo.pushed_at),
        "pushed_at": stamp(repo.pushed_at),
    }


def label(repo: Repo, one: Label) -> Json:
    """`label`."""
    return {
        "id": one.id,
        "node_id": node_id("LA", one.id),
        "url": f"{repo.api_url}/labels/{quote(one.name, safe='')}",
        "name": one.name,
        "color": one.color,
        "default": one.name in DEFAULT_LABELS,
        "description": one.description,
    }


def permission(repo: Repo, account: User) -> Json:
    """`repository-collaborator-permission`: the old four levels, and the role."""
    role = repo.role_of(account)
    coarse = {"maintain": "write", "triage": "read"}.get(role, role)
    rank = ("none", "read", "triage", "write", "maintain", "admin").index(role)
    return {
        "permission": coarse,
        "role_name": role,
        "user": {
            **user(account),
            "permissions": {
                "pull": rank >= 1,
                "triage": rank >= 2,
                "push": rank >= 3,
                "maintain": rank >= 4,
                "admin": rank >= 5,
            },
            "role_name": role,
        },
    }
