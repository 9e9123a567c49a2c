"""Commits, trees, blobs, refs, branches, files and comparisons."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from bot.localhub.git.types import ChangedFile, Commit, Entry, Signature
from bot.localhub.json.people import user
from bot.localhub.json.repositories import api_url
from bot.localhub.state import Repo, User, node_id, stamp

Json = dict[str, Any]

UNSIGNED: Json = {
    "verified": False,
    "reason": "unsigned",
    "signature": None,
    "payload": None,
    "verified_at": None,
}

KINDS = {"blob": "file", "tree": "dir", "commit": "submodule"}


def ref(url: str, repo: Repo, name: str, sha: str, kind: str = "commit") -> Json:
    """`git-ref`; `name` is full (`refs/heads/...`)."""
    base = f"{api_url(url, repo)}/git"
    return {
        "ref": name,
        "node_id": node_id("REF", int(sha[:12], 16)),
        "url": f"{base}/{quote(name)}",
        "object": {"sha": sha, "type": kind, "url": f"{base}/{kind}s/{sha}"},
    }


def git_commit(url: str, repo: Repo, one: Commit) -> Json:
    """`git-commit`: the object itself."""
    base = f"{api_url(url, repo)}/git"
    page = f"{url}/{repo.full_name}/commit"
    return {
        "sha": one.sha,
        "node_id": node_id("C", int(one.sha[:12], 16)),
        "url": f"{base}/commits/{one.sha}",
        "html_url": f"{page}/{one.sha}",
        "author": _signature(one.author),
        "committer": _signature(one.committer),
        "tree": {"sha": one.tree, "url": f"{base}/trees/{one.tree}"},
        "message": one.message.rstrip("\n"),
        "parents": [
            {"sha": p, "url": f"{base}/commits/{p}", "html_url": f"{page}/{p}"} for p in one.parents
        ],
        "verification": UNSIGNED,
    }


def commit(url: str, repo: Repo, one: Commit, author: User | None = None) -> Json:
    """`commit`: as lists of commits show it. `author` is the account with the author's e-mail."""
    base = f"{api_url(url, repo)}/commits"
    page = f"{url}/{repo.full_name}/commit"
    account = user(url, author) if author else None
    return {
        "sha": one.sha,
        "node_id": node_id("C", int(one.sha[:12], 16)),
        "url": f"{base}/{one.sha}",
        "html_url": f"{page}/{one.sha}",
        "comments_url": f"{base}/{one.sha}/comments",
        "commit": {
            "url": f"{api_url(url, repo)}/git/commits/{one.sha}",
            "author": _signature(one.author),
            "committer": _signature(one.committer),
            "message": one.message.rstrip("\n"),
            "tree": {"sha": one.tree, "url": f"{api_url(url, repo)}/git/trees/{one.tree}"},
            "comment_count": 0,
            "verification": UNSIGNED,
        },
        "author": account,
        "committer": account,
        "parents": [
            {"sha": p, "url": f"{base}/{p}", "html_url": f"{page}/{p}"} for p in one.parents
        ],
    }


def simple_commit(one: Commit) -> Json:
    """`simple-commit`, as check suites contain it."""
    return {
        "id": one.sha,
        "tree_id": one.tree,
        "message": one.message.rstrip("\n"),
        "timestamp": stamp(one.committer.at),
        "author": {"name": one.author.name, "email": one.author.email},
        "committer": {"name": one.committer.name, "email": one.committer.email},
    }


def tree(url: str, repo: Repo, sha: str, entries: list[Entry]) -> Json:
    """`git-tree`."""
    base = f"{api_url(url, repo)}/git"
    return {
        "sha": sha,
        "url": f"{base}/trees/{sha}",
        "tree": [
            {
                "path": e.path,
                "mode": e.mode,
                "type": e.kind,
                "sha": e.sha,
                **({} if e.size is None else {"size": e.size}),
                "url": f"{base}/{e.kind}s/{e.sha}",
            }
            for e in entries
        ],
        "truncated": False,
    }


def blob(url: str, repo: Repo, sha: str, content: bytes) -> Json:
    """`blob`, always base64."""
    return {
        "sha": sha,
        "node_id": node_id("B", int(sha[:12], 16)),
        "size": len(content),
        "url": f"{api_url(url, repo)}/git/blobs/{sha}",
        "content": wrap_base64(content),
        "encoding": "base64",
    }


def branch(url: str, repo: Repo, name: str, sha: str) -> Json:
    """`short-branch`."""
    target = {"sha": sha, "url": f"{api_url(url, repo)}/commits/{sha}"}
    return {"name": name, "commit": target, "protected": False}


def full_branch(url: str, repo: Repo, name: str, head: Commit) -> Json:
    """`branch-with-protection`; nothing is protected here."""
    here = f"{api_url(url, repo)}/branches/{quote(name)}"
    return {
        "name": name,
        "commit": commit(url, repo, head),
        "_links": {"self": here, "html": f"{url}/{repo.full_name}/tree/{quote(name)}"},
        "protected": False,
        "protection": {
            "enabled": False,
            "required_status_checks": {"enforcement_level": "off", "contexts": [], "checks": []},
        },
        "protection_url": f"{here}/protection",
    }


def content(url: str, repo: Repo, entry: Entry, rev: str, data: bytes | None = None) -> Json:
    """`content-file` with `data`, else one entry of `content-directory`."""
    path, name = quote(entry.path), quote(rev, safe="")
    here = f"{api_url(url, repo)}/contents/{path}?ref={name}"
    kind = "symlink" if entry.mode == "120000" else KINDS[entry.kind]
    page = f"{url}/{repo.full_name}/{'tree' if kind == 'dir' else 'blob'}/{name}/{path}"
    git = f"{api_url(url, repo)}/git/{'trees' if kind == 'dir' else 'blobs'}/{entry.sha}"
    shape: Json = {
        "name": entry.name,
        "path": entry.path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": here,
        "html_url": page,
        "git_url": git,
        "download_url": None if kind == "dir" else f"{url}/{repo.full_name}/raw/{name}/{path}",
        "type": kind,
        "_links": {"self": here, "git": git, "html": page},
    }
    if data is not None:
        shape |= {"content": wrap_base64(data), "encoding": "base64"}
    return shape


def diff_entry(url: str, repo: Repo, one: ChangedFile, sha: str) -> Json:
    """`diff-entry`; `sha` is the commit that contains the file."""
    path = quote(one.path)
    return {
        "sha": one.sha,
        "filename": one.path,
        "status": one.status,
        "additions": one.additions,
        "deletions": one.deletions,
        "changes": one.additions + one.deletions,
        "blob_url": f"{url}/{repo.full_name}/blob/{sha}/{path}",
        "raw_url": f"{url}/{repo.full_name}/raw/{sha}/{path}",
        "contents_url": f"{api_url(url, repo)}/contents/{path}?ref={sha}",
        **({"patch": one.patch} if one.patch else {}),
        **({"previous_filename": one.before} if one.before else {}),
    }


def wrap_base64(content: bytes) -> str:
    """Base64 in lines of 60 characters, each with a line break, as GitHub sends it."""
    text = base64.b64encode(content).decode()
    return "".join(f"{text[i : i + 60]}\n" for i in range(0, len(text), 60))


def _signature(one: Signature) -> Json:
    return {"name": one.name, "email": one.email, "date": stamp(one.at)}
