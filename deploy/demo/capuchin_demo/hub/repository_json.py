"""Repositories, labels and permissions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from bot.localhub.json.people import user
from bot.localhub.state import Label, Repo, User, node_id, stamp

Json = dict[str, Any]

DEFAULT_LABELS = ("bug", "documentation", "duplicate", "enhancement", "question", "wontfix")

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

COUNTS = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size")


def api_url(url: str, repo: Repo) -> str:
    """The address of the repository in the REST API."""
    return f"{url}/api/v3/repos/{repo.full_name}"


def minimal_repository(url: str, repo: Repo) -> Json:
    """`minimal-repository`."""
    base = api_url(url, repo)
    return {
        "id": repo.id,
        "node_id": node_id("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "owner": user(url, repo.owner),
        "html_url": f"{url}/{repo.full_name}",
        "description": repo.description,
        "fork": False,
        "url": base,
        **{name: base + path for name, path in LINKS.items()},
    }


def repository(url: str, repo: Repo) -> Json:
    """`repository`, as in lists, pull requests and webhooks."""
    page = f"{url}/{repo.full_name}"
    still_open = sum(issue.state == "open" for issue in repo.issues.values())
    return {
        **minimal_repository(url, repo),
        "git_url": f"git://{url.split('//')[1]}/{repo.full_name}.git",
        "ssh_url": f"git@{url.split('//')[1]}:{repo.full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "license": None,
        **dict.fromkeys(COUNTS, 0),
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
        "archived": False,
        "disabled": False,
        "visibility": "private" if repo.private else "public",
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "created_at": stamp(repo.created_at),
        "updated_at": stamp(repo.pushed_at),
        "pushed_at": stamp(repo.pushed_at),
    }


def full_repository(url: str, repo: Repo) -> Json:
    """`full-repository`, the response of `GET /repos/{owner}/{repo}`."""
    return {**repository(url, repo), "network_count": 0, "subscribers_count": 0}


def label(url: str, repo: Repo, one: Label) -> Json:
    """`label`."""
    return {
        "id": one.id,
        "node_id": node_id("LA", one.id),
        "url": f"{api_url(url, repo)}/labels/{quote(one.name, safe='')}",
        "name": one.name,
        "color": one.color,
        "default": one.name in DEFAULT_LABELS,
        "description": one.description,
    }


def permission(url: str, repo: Repo, account: User) -> Json:
    """`repository-collaborator-permission`: the old four levels, and the role."""
    role = repo.role_of(account)
    coarse = {"maintain": "write", "triage": "read"}.get(role, role)
    rank = ("none", "read", "triage", "write", "maintain", "admin").index(role)
    return {
        "permission": coarse,
        "role_name": role,
        "user": {
            **user(url, account),
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
