"""What GitHub refuses although the token may write: rulesets, push protection, workflow files.

https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets/available-rules-for-rulesets
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capuchin_demo.hub.git_repository import Commit, GitRepo, run_git
from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import Token
from tests.support.github.hub_state import GitHubState

WORKFLOWS = ".github/workflows"
ARCHIVED = "Repository was archived so is read-only."
_DECLINED = "push declined due to repository rule violations"


@dataclass(frozen=True)
class Violation:
    """Why a ref may not be set."""

    lines: tuple[str, ...] = ()
    """What git shows after `remote:`."""
    reason: str = _DECLINED
    """What git shows in parentheses after `[remote rejected]`."""
    status: int = 422
    """Of the REST API's refusal."""

    def to_refusal(self) -> Refusal:
        """The refusal of the REST API, which does not say more of workflow files."""
        if self.status == 403:
            return Refusal(403, "Resource not accessible by integration")
        rules = "\n\n".join(
            line.lstrip("- ") for line in self.lines if line.strip().startswith("- ")
        )
        return Refusal(422, f"Repository rule violations found\n\n{rules}\n\n")


def find_violation(
    hub: GitHubState, repo: Repo, token: Token, ref: str, old: str | None, new: str
) -> Violation | None:
    """Why `token` may not set `ref`, which is `old` or new, to the commit `new`; None if it may."""
    if not ref.startswith("refs/heads/") or repo.git.object_kind(new) != "commit":
        return None
    lacks = token.installation is not None and not token.is_allowed(repo, "workflows:write")
    if lacks and (path := _find_changed_workflow(repo, new)):
        return Violation(
            reason="refusing to allow a GitHub App to create or update workflow "
            f"`{path}` without `workflows` permission",
            status=403,
        )
    commits = _list_new_commits(repo.git, new)
    hub.site.verified.update(one.sha for one in commits if _is_signed(hub, repo, one))
    broken = list(_find_broken_rules(hub, repo, ref, old, commits))
    if not broken:
        return None
    return Violation((f"error: GH013: Repository rule violations found for {ref}.", "", *broken))


def _find_changed_workflow(repo: Repo, new: str) -> str:
    """A workflow file that differs from the default branch's; empty if they are the same."""
    git, head = repo.git, repo.git.resolve(f"refs/heads/{repo.default_branch}")
    if head is None:
        return ""
    ours, theirs = (
        {one.path: one.sha for one in git.list_entries(entry.sha, recursive=True)}
        if (entry := git.find_entry(commit, WORKFLOWS))
        else {}
        for commit in (new, head)
    )
    changed = sorted(p for p in ours.keys() | theirs.keys() if ours.get(p) != theirs.get(p))
    return f"{WORKFLOWS}/{changed[0]}" if changed else ""


def _list_new_commits(git: GitRepo, new: str) -> list[Commit]:
    listing = run_git(git.path, "rev-list", new, "--not", "--branches")
    return git.read_commits(listing.decode().split())


def _is_signed(hub: GitHubState, repo: Repo, commit: Commit) -> bool:
    """Whether a key has signed it that is registered by the account with the committer's address.

    docs.github.com/authentication/managing-commit-signature-verification/about-commit-signature-verification
    """
    key = hub.signing_keys.get(commit.committer.email)
    if key is None:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".signers") as signers:
        signers.write(f'{commit.committer.email} namespaces="git" {key}\n')
        signers.flush()
        config = ("-c", f"gpg.ssh.allowedSignersFile={signers.name}")
        shown = run_git(repo.git.path, *config, "log", "-1", "--format=%G?", commit.sha)
    return shown.strip() == b"G"


def _find_broken_rules(
    hub: GitHubState, repo: Repo, ref: str, old: str | None, commits: list[Commit]
) -> Iterator[str]:
    rules = hub.rules[repo.id]
    if rules.signatures and any(one.sha not in hub.site.verified for one in commits):
        yield "- Commits must have verified signatures."
    if rules.secrets and any(_holds_secret(repo, one, rules.secrets) for one in commits):
        yield from (
            "- GITHUB PUSH PROTECTION",
            "  —————————————————————————————————————————",
            "    Resolve the following violations before pushing again",
            "",
            "    - Push cannot contain secrets",
        )
    name = ref.removeprefix("refs/heads/")
    if rules.branch_names and old is None and not re.fullmatch(rules.branch_names, name):
        yield f"- Branch name must match a given regex pattern: {rules.branch_names}"
    if rules.messages and not all(re.fullmatch(rules.messages, c.message, re.S) for c in commits):
        yield f"- Commit message must match a given regex pattern: {rules.messages}"
    if rules.author_emails and not all(
        re.fullmatch(rules.author_emails, one.author.email) for one in commits
    ):
        yield f"- Commit author email must match a given regex pattern: {rules.author_emails}"


def _holds_secret(repo: Repo, commit: Commit, secrets: tuple[str, ...]) -> bool:
    git = repo.git
    before, after = (
        {one.sha for one in git.list_entries(tree, recursive=True) if one.kind == "blob"}
        for tree in (git.read_commit(commit.parents[0]).tree, commit.tree)
    )
    texts = (git.read_object("blob", sha).decode("utf-8", "replace") for sha in after - before)
    return any(secret in text for text in texts for secret in secrets)


RESULT = "application/x-git-receive-pack-result"


@dataclass
class Push:
    """What a client wants to set, and the pack that it sends.

    https://git-scm.com/docs/gitprotocol-pack (pushing data to a server)
    """

    refs: dict[str, str]
    pack: bytes

    def decline(self, broken: Sequence[Violation]) -> bytes:
        """The answer that refuses every ref, with lines that git shows after `remote:`."""
        shown = b"".join(
            _packet(b"\x02" + line.encode() + b"\n") for one in broken for line in one.lines
        )
        refused = b"".join(_packet(f"ng {ref} {broken[0].reason}\n".encode()) for ref in self.refs)
        report = _packet(b"unpack ok\n") + refused + b"0000"
        return shown + _packet(b"\x01" + report) + b"0000"


def parse_push(body: bytes) -> Push:
    """The commands and the pack of a request to git-receive-pack."""
    refs: dict[str, str] = {}
    at = 0
    while (length := int(body[at : at + 4] or b"0", 16)) >= 4:
        words = body[at + 4 : at + length].split(b"\0")[0].decode().split()
        if len(words) == 3:  # others say where the client's history ends
            refs[words[2]] = words[1]
        at += length
    return Push(refs, body[at + 4 :])


def _packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def find_violations(
    hub: GitHubState, repo: Repo, token: Token, push: Push, before: dict[str, str]
) -> list[Violation]:
    """Look at the pushed commits before git accepts them; it does not mind them being there."""
    if push.pack:
        run_git(repo.git.path, "unpack-objects", "-q", stdin=push.pack)
    found = (
        find_violation(hub, repo, token, ref, before.get(ref), new)
        for ref, new in push.refs.items()
    )
    return [one for one in found if one is not None]
