"""Cuts GitHub's published OpenAPI documents down to the operations and webhooks that Capuchin uses.

To regenerate the files in `data/`:

    npm pack @octokit/openapi@23.0.2 @octokit/openapi-webhooks@12.1.0
    mkdir rest hooks
    tar xzf octokit-openapi-23*.tgz -C rest && tar xzf octokit-openapi-webhooks-*.tgz -C hooks
    python tests/contracts/github/slim_documents.py rest/package hooks/package

Each package folder must hold `LICENSE` (MIT, copied beside the data) and
`generated/api.github.com.json`.
"""

import gzip
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

DATA = Path(__file__).parent / "data"

REPO = "/repos/{owner}/{repo}"

OPERATIONS: Mapping[str, str] = {
    "/app": "get",
    "/app-manifests/{code}/conversions": "post",
    "/app/hook/deliveries": "get",
    "/app/installations": "get",
    "/app/installations/{installation_id}": "get",
    "/app/installations/{installation_id}/access_tokens": "post",
    "/installation/repositories": "get",
    "/search/repositories": "get",
    "/users/{username}": "get",
    REPO: "get",
    REPO + "/installation": "get",
    REPO + "/actions/jobs/{job_id}/logs": "get",
    REPO + "/actions/runs/{run_id}/rerun-failed-jobs": "post",
    REPO + "/branches": "get",
    REPO + "/branches/{branch}": "get",
    REPO + "/check-runs": "post",
    REPO + "/check-runs/{check_run_id}": "patch",
    REPO + "/check-runs/{check_run_id}/annotations": "get",
    REPO + "/check-suites": "post",
    REPO + "/check-suites/preferences": "patch",
    REPO + "/collaborators/{username}/permission": "get",
    REPO + "/commits": "get",
    REPO + "/commits/{ref}/check-runs": "get",
    REPO + "/commits/{ref}/check-suites": "get",
    REPO + "/commits/{commit_sha}/pulls": "get",
    REPO + "/commits/{ref}/status": "get",
    REPO + "/compare/{basehead}": "get",
    REPO + "/contents/{path}": "get",
    REPO + "/git/blobs": "post",
    REPO + "/git/commits": "post",
    REPO + "/git/commits/{commit_sha}": "get",
    REPO + "/git/matching-refs/{ref}": "get",
    REPO + "/git/ref/{ref}": "get",
    REPO + "/git/refs": "post",
    REPO + "/git/refs/{ref}": "patch delete",
    REPO + "/git/trees": "post",
    REPO + "/issues": "get post",
    REPO + "/issues/{issue_number}/events": "get",
    REPO + "/issues/comments": "get",
    REPO + "/issues/comments/{comment_id}": "patch",
    REPO + "/issues/comments/{comment_id}/reactions": "get post",
    REPO + "/issues/comments/{comment_id}/reactions/{reaction_id}": "delete",
    REPO + "/issues/{issue_number}": "get patch",
    REPO + "/issues/{issue_number}/comments": "get post",
    REPO + "/issues/{issue_number}/labels": "post",
    REPO + "/issues/{issue_number}/labels/{name}": "delete",
    REPO + "/issues/{issue_number}/timeline": "get",
    REPO + "/issues/{issue_number}/reactions": "get post",
    REPO + "/issues/{issue_number}/reactions/{reaction_id}": "delete",
    REPO + "/labels": "post",
    REPO + "/labels/{name}": "get",
    REPO + "/pulls": "get post",
    REPO + "/pulls/comments": "get",
    REPO + "/pulls/comments/{comment_id}/reactions": "get post",
    REPO + "/pulls/comments/{comment_id}/reactions/{reaction_id}": "delete",
    REPO + "/pulls/{pull_number}": "get patch",
    REPO + "/pulls/{pull_number}/comments": "get",
    REPO + "/pulls/{pull_number}/comments/{comment_id}/replies": "post",
    REPO + "/pulls/{pull_number}/commits": "get",
    REPO + "/pulls/{pull_number}/files": "get",
    REPO + "/pulls/{pull_number}/requested_reviewers": "post",
    REPO + "/pulls/{pull_number}/reviews": "get post",
    REPO + "/rules/branches/{branch}": "get",
}

WEBHOOKS = (
    "ping",
    "push",
    *(f"issues-{a}" for a in ("opened", "labeled", "unlabeled", "closed", "reopened", "edited")),
    *(f"issues-{a}" for a in ("deleted", "assigned", "transferred")),
    *(f"issue-comment-{a}" for a in ("created", "edited", "deleted")),
    *(f"pull-request-{a}" for a in ("opened", "closed", "reopened", "edited", "synchronize")),
    *(f"pull-request-{a}" for a in ("labeled", "unlabeled", "review-requested")),
    "pull-request-ready-for-review",
    "pull-request-converted-to-draft",
    "pull-request-review-submitted",
    "pull-request-review-comment-created",
    *(f"installation-{a}" for a in ("created", "deleted", "suspend", "unsuspend")),
    "installation-new-permissions-accepted",
    *(f"repository-{a}" for a in ("renamed", "transferred", "deleted", "archived", "edited")),
    "installation-repositories-added",
    "installation-repositories-removed",
    "check-run-created",
    "check-run-completed",
    "check-run-rerequested",
    "check-suite-completed",
    "check-suite-requested",
    "status",
    "check-suite-rerequested",
)

PROSE = frozenset({"description", "summary", "externalDocs", "x-github", "example", "examples"})


def references(node: Any) -> Iterator[str]:
    """Every `$ref` under `node`."""
    if isinstance(node, list):
        for item in cast("list[Any]", node):
            yield from references(item)
    elif isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)


def without_prose(node: Any, *, names: bool = False) -> Any:
    """A copy without descriptions. `names`: the keys of this object are property names."""
    if isinstance(node, list):
        return [without_prose(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    return {
        key: without_prose(value, names=key == "properties" and not names)
        for key, value in cast("dict[str, Any]", node).items()
        if names or key not in PROSE or (key == "description" and "content" in node)
    }


def cut(document: dict[str, Any], kept: dict[str, Any], section: str) -> dict[str, Any]:
    """The document with only `kept` in `section`, and every component that it needs."""
    slim: dict[str, Any] = {
        "openapi": document["openapi"],
        "info": {key: document["info"][key] for key in ("title", "version")},
        section: without_prose(kept, names=True),
        "components": {},
    }
    waiting = list(references(slim[section]))
    while waiting:
        _, _, kind, name = waiting.pop().split("/", 3)
        components = slim["components"].setdefault(kind, {})
        if name in components:
            continue
        components[name] = without_prose(document["components"][kind][name])
        waiting.extend(references(components[name]))
    return slim


def slim_rest(document: dict[str, Any]) -> dict[str, Any]:
    """The operations in `OPERATIONS`.

    Raises:
        KeyError: GitHub does not have an operation.
    """
    kept: dict[str, Any] = {}
    for path, methods in OPERATIONS.items():
        item = document["paths"][path]
        kept[path] = {method: without_prose(item[method]) for method in methods.split()}
    return cut(document, kept, "paths")


def slim_webhooks(document: dict[str, Any]) -> dict[str, Any]:
    """The events in `WEBHOOKS`.

    Raises:
        KeyError: GitHub does not have an event.
    """
    kept = {name: without_prose(document["webhooks"][name]) for name in WEBHOOKS}
    return cut(document, kept, "webhooks")


def write(document: dict[str, Any], name: str, package: Path) -> None:
    """Write the same bytes for the same document: sorted keys, no time stamp."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    shutil.copyfile(package / "LICENSE", DATA / f"{name}.LICENSE")


def main(rest: Path, webhooks: Path) -> None:
    """Read the two unpacked packages and write `data/`."""
    DATA.mkdir(exist_ok=True)
    for package, name, slim in ((rest, "rest", slim_rest), (webhooks, "webhooks", slim_webhooks)):
        document = json.loads((package / "generated" / "api.github.com.json").read_text("utf-8"))
        write(slim(document), name, package)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
