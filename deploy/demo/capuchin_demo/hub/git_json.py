"""Git objects and checks as GitHub's JSON."""

import base64
from typing import Any
from urllib.parse import quote

from capuchin_demo.hub.git_repository import ChangedFile, Commit, Entry, Signature
from capuchin_demo.hub.repository_json import minimal_repository, user
from capuchin_demo.hub.state import CheckRun, CheckSuite, CommitStatus, Repo, User, node_id, stamp

Json = dict[str, Any]


def _verification(repo: Repo, one: Commit) -> Json:
    """GitHub signs what an App commits by the API without naming an author or a committer.

    docs.github.com/authentication/managing-commit-signature-verification/about-commit-signature-verification
    """
    verified = one.sha in repo.owner.site.verified
    return {
        "verified": verified,
        "reason": "valid" if verified else "unsigned",
        "signature": "-----BEGIN PGP SIGNATURE-----" if verified else None,
        "payload": f"tree {one.tree}" if verified else None,
        "verified_at": stamp(one.committer.at) if verified else None,
    }


def ref(repo: Repo, name: str, sha: str, kind: str = "commit") -> Json:
    """`git-ref`; `name` is full (`refs/heads/...`)."""
    base = f"{repo.api_url}/git"
    return {
        "ref": name,
        "node_id": node_id("REF", int(sha[:12], 16)),
        "url": f"{base}/{quote(name)}",
        "object": {"sha": sha, "type": kind, "url": f"{base}/{kind}s/{sha}"},
    }


def git_commit(repo: Repo, one: Commit) -> Json:
    """`git-commit`: the object itself."""
    base = f"{repo.api_url}/git"
    page = f"{repo.page_url}/commit"
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
        "verification": _verification(repo, one),
    }


def commit(repo: Repo, one: Commit, author: User | None) -> Json:
    """`commit`: as lists of commits show it. `author` is the account with the author's e-mail."""
    base = f"{repo.api_url}/commits"
    page = f"{repo.page_url}/commit"
    account = user(author) if author else None
    return {
        "sha": one.sha,
        "node_id": node_id("C", int(one.sha[:12], 16)),
        "url": f"{base}/{one.sha}",
        "html_url": f"{page}/{one.sha}",
        "comments_url": f"{base}/{one.sha}/comments",
        "commit": {
            "url": f"{repo.api_url}/git/commits/{one.sha}",
            "author": _signature(one.author),
            "committer": _signature(one.committer),
            "message": one.message.rstrip("\n"),
            "tree": {"sha": one.tree, "url": f"{repo.api_url}/git/trees/{one.tree}"},
            "comment_count": 0,
            "verification": _verification(repo, one),
        },
        "author": account,
        "committer": account,
        "parents": [
            {"sha": p, "url": f"{base}/{p}", "html_url": f"{page}/{p}"} for p in one.parents
        ],
    }


def tree(repo: Repo, sha: str, entries: list[Entry]) -> Json:
    """`git-tree`."""
    base = f"{repo.api_url}/git"
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


def branch(repo: Repo, name: str, sha: str) -> Json:
    """`short-branch`."""
    target = {"sha": sha, "url": f"{repo.api_url}/commits/{sha}"}
    return {"name": name, "commit": target, "protected": False}


def content(repo: Repo, entry: Entry, rev: str, data: bytes | None = None) -> Json:
    """`content-file` with `data`, else one entry of `content-directory`."""
    path, name = quote(entry.path), quote(rev, safe="")
    here = f"{repo.api_url}/contents/{path}?ref={name}"
    kinds = {"blob": "file", "tree": "dir", "commit": "submodule"}
    kind = "symlink" if entry.mode == "120000" else kinds[entry.kind]
    page = f"{repo.page_url}/{'tree' if kind == 'dir' else 'blob'}/{name}/{path}"
    git = f"{repo.api_url}/git/{'trees' if kind == 'dir' else 'blobs'}/{entry.sha}"
    shape: Json = {
        "name": entry.name,
        "path": entry.path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": here,
        "html_url": page,
        "git_url": git,
        "download_url": None if kind == "dir" else f"{repo.page_url}/raw/{name}/{path}",
        "type": kind,
        "_links": {"self": here, "git": git, "html": page},
    }
    if data is not None:
        shape |= {"content": wrap_base64(data), "encoding": "base64"}
    return shape


def diff_entry(repo: Repo, one: ChangedFile, sha: str) -> Json:
    """`diff-entry`; `sha` is the commit that contains the file."""
    path = quote(one.path)
    return {
        "sha": one.sha,
        "filename": one.path,
        "status": one.status,
        "additions": one.additions,
        "deletions": one.deletions,
        "changes": one.additions + one.deletions,
        "blob_url": f"{repo.page_url}/blob/{sha}/{path}",
        "raw_url": f"{repo.page_url}/raw/{sha}/{path}",
        "contents_url": f"{repo.api_url}/contents/{path}?ref={sha}",
        **({"patch": one.patch} if one.patch else {}),
        **({"previous_filename": one.before} if one.before else {}),
    }


def wrap_base64(content: bytes) -> str:
    """Base64 in lines of 60 characters, each with a line break, as GitHub sends it."""
    text = base64.b64encode(content).decode()
    return "".join(f"{text[i : i + 60]}\n" for i in range(0, len(text), 60))


def _signature(one: Signature) -> Json:
    return {"name": one.name, "email": one.email, "date": stamp(one.at)}


def _app_of(slug: str, own: Json) -> Json:
    return {**own, "id": own["id"] + 1, "slug": slug, "name": slug} if slug else own


def check_run(repo: Repo, one: CheckRun, app: Json) -> Json:
    """`check-run`."""
    suite = one.suite
    here = f"{repo.api_url}/check-runs/{one.id}"
    page = f"{repo.page_url}/runs/{one.id}"
    if suite.app == "github-actions":
        page = f"{repo.page_url}/actions/runs/{suite.id}/job/{one.id}"
    app = _app_of(suite.app, app)
    return {
        "id": one.id,
        "node_id": node_id("CR", one.id),
        "head_sha": one.head_sha,
        "external_id": one.external_id,
        "url": here,
        "html_url": page,
        "details_url": one.details_url or page,
        "status": one.status,
        "conclusion": one.conclusion,
        "started_at": stamp(one.started_at) if one.started_at else None,
        "completed_at": stamp(one.completed_at) if one.completed_at else None,
        "name": one.name,
        "output": {
            "title": one.title,
            "summary": one.summary,
            "text": one.text,
            "annotations_count": len(one.annotations),
            "annotations_url": f"{here}/annotations",
        },
        "check_suite": {"id": suite.id},
        "app": app,
        "pull_requests": _pull_references(repo, one.head_sha),
    }


def runs_of(repo: Repo, suite: CheckSuite) -> list[CheckRun]:
    """The check runs of a suite, oldest first."""
    return [run for run in repo.check_runs if run.suite is suite]


def check_suite(repo: Repo, one: CheckSuite, runs: list[CheckRun], head: Commit, app: Json) -> Json:
    """`check-suite`; its state follows from its runs."""
    done = bool(runs) and all(run.status == "completed" for run in runs)
    here = f"{repo.api_url}/check-suites/{one.id}"
    branch = next((p.head_ref for p in repo.pulls if p.head_sha == one.head_sha), None)
    order = ("action_required", "cancelled", "timed_out", "failure", "neutral", "skipped")
    reached = {run.conclusion for run in runs}
    conclusion = next((word for word in order if word in reached), "success")
    return {
        "id": one.id,
        "node_id": node_id("CS", one.id),
        "head_branch": branch,
        "head_sha": one.head_sha,
        "status": "completed" if done else "queued",
        "conclusion": conclusion if done else None,
        "url": here,
        "before": head.parents[0] if head.parents else None,
        "after": one.head_sha,
        "pull_requests": _pull_references(repo, one.head_sha),
        "app": _app_of(one.app, app),
        "repository": minimal_repository(repo),
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.updated_at),
        "head_commit": {
            "id": head.sha,
            "tree_id": head.tree,
            "message": head.message.rstrip("\n"),
            "timestamp": stamp(head.committer.at),
            "author": {"name": head.author.name, "email": head.author.email},
            "committer": {"name": head.committer.name, "email": head.committer.email},
        },
        "latest_check_runs_count": len(runs),
        "check_runs_url": f"{here}/check-runs",
    }


def _pull_references(repo: Repo, sha: str) -> list[Json]:
    """Pull requests of the commit. GitHub omits those from forks."""
    base = {"id": repo.id, "url": repo.api_url, "name": repo.name}
    return [
        {
            "id": pull.id,
            "number": pull.number,
            "url": f"{repo.api_url}/pulls/{pull.number}",
            "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": base},
            "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": base},
        }
        for pull in repo.pulls
        if pull.head_sha == sha and pull.state == "open" and pull.fork is None
    ]


def full_branch(repo: Repo, name: str, head: Json) -> Json:
    """`branch-with-protection`; nothing is protected here."""
    here = f"{repo.api_url}/branches/{quote(name)}"
    return {
        "name": name,
        "commit": head,
        "_links": {"self": here, "html": f"{repo.page_url}/tree/{quote(name)}"},
        "protected": False,
        "protection": {
            "enabled": False,
            "required_status_checks": {"enforcement_level": "off", "contexts": [], "checks": []},
        },
        "protection_url": f"{here}/protection",
    }


def status(repo: Repo, one: CommitStatus) -> Json:
    """`simple-commit-status`."""
    return {
        "url": f"{repo.api_url}/statuses/{one.sha}",
        "avatar_url": f"{one.author.site.url}/{one.author.login}.png",
        "id": one.id,
        "node_id": node_id("SC", one.id),
        "state": one.state,
        "description": one.description,
        "target_url": None,
        "context": one.context,
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.created_at),
    }


def status_summary(repo: Repo, sha: str, shown: list[Json], total: int, state: str) -> Json:
    """`combined-commit-status`; `shown` is one page of `total` statuses."""
    here = f"{repo.api_url}/commits/{sha}"
    return {
        "state": state,
        "statuses": shown,
        "sha": sha,
        "total_count": total,
        "repository": minimal_repository(repo),
        "commit_url": here,
        "url": f"{here}/status",
    }
