"""`LocalHub`: the tests' GitHub, with methods that act like people and like GitHub itself."""

import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from capuchin_demo.hub import events, issue_actions, pull_actions, repository_json
from capuchin_demo.hub.check_actions import queue_own_suite
from capuchin_demo.hub.git_repository import run_git
from capuchin_demo.hub.github_errors import custom_error
from capuchin_demo.hub.hub_state import commit_tree
from capuchin_demo.hub.pull_actions import NO_COMMIT
from capuchin_demo.hub.serve_hub import serve_hub
from capuchin_demo.hub.state import Comment, Issue, Pull, Repo, Review, ReviewComment, User, now
from capuchin_demo.hub.tokens import Token
from capuchin_demo.hub.webhooks import Delivery
from tests.support.github.hub_state import GitHubState
from tests.support.github.rules import find_violation
from tests.support.github.serve_hub import create_app


class LocalHub(GitHubState):
    """The state, its interfaces on a port, and people who use them.

    A method that changes the state sends the webhooks and waits for their responses.
    """

    @asynccontextmanager
    async def serve(
        self, port: int = 0, host: str = "127.0.0.1", enterprise: str = ""
    ) -> AsyncGenerator[str, None]:
        """Serve on `host:port` (0: any free port) until the block ends; yields the address.

        `enterprise` is a host name that leads here; the hub then acts as that Enterprise Server.
        """
        async with serve_hub(self, create_app(self), host, port) as address:
            if enterprise:
                self.site.url = address = address.replace(host, enterprise, 1)
                self.webhooks.enterprise_host = enterprise
            yield address

    def emit(self, event: str, repo: Repo, by: User, payload: dict[str, Any]) -> None:
        """A push to a branch queues the App's check suite, too."""
        after = payload.get("after", NO_COMMIT)
        if event == "push" and payload["ref"].startswith("refs/heads/") and after != NO_COMMIT:
            queue_own_suite(self, repo, after, by)
        super().emit(event, repo, by, payload)

    def check_ref(self, repo: Repo, token: Token, name: str, old: str | None, new: str) -> None:
        if broken := find_violation(self, repo, token, name, old, new):
            raise broken.to_refusal()

    def check_new_pull(self, repo: Repo) -> None:
        if refusal := self.rules[repo.id].pull_requests:
            raise custom_error("PullRequest", refusal)

    # Webhooks

    @property
    def webhook_url(self) -> str | None:
        """The receiver of webhooks; None only records them."""
        return self.webhooks.url

    @webhook_url.setter
    def webhook_url(self, url: str | None) -> None:
        self.webhooks.url = url

    @property
    def deliveries(self) -> list[Delivery]:
        """Every webhook, oldest first."""
        return self.webhooks.deliveries

    async def redeliver(self, delivery: Delivery) -> Delivery:
        """Send a delivery again, with the same guid and bytes."""
        again = self.webhooks.resend(delivery)
        await self.wait_until_delivered()
        return again

    async def ping(self) -> None:
        """Send a ping, as GitHub does when the App's webhook is set up."""
        events.send_ping(self)
        await self.wait_until_delivered()

    # Issues

    async def open_issue(
        self,
        repo: Repo,
        title: str,
        body: str | None = None,
        author: str = "alice",
        labels: Iterable[str] = (),
    ) -> Issue:
        issue = issue_actions.open_issue(self, repo, title, body, self.add_user(author), labels)
        await self.wait_until_delivered()
        return issue

    def attach(self, name: str, content: bytes) -> str:
        """Upload a picture or another file, as people do before they send a text; its address."""
        picture = name.endswith((".png", ".jpg", ".gif", ".webp"))
        place = f"assets/{uuid4()}" if picture else f"files/{self.next_id()}/{name}"
        self.attachments[f"/user-attachments/{place}"] = content
        return f"{self.url}/user-attachments/{place}"

    async def edit_issue(
        self, issue: Issue, by: str, title: str | None = None, body: str | None = None
    ) -> None:
        issue_actions.edit_issue(self, issue, self.add_user(by), title, body)
        await self.wait_until_delivered()

    async def add_label(self, issue: Issue, name: str, by: str) -> None:
        issue_actions.add_labels(self, issue, [name], self.add_user(by))
        await self.wait_until_delivered()

    async def remove_label(self, issue: Issue, name: str, by: str) -> None:
        issue_actions.remove_label(self, issue, name, self.add_user(by))
        await self.wait_until_delivered()

    async def assign(self, issue: Issue, login: str, by: str) -> None:
        issue_actions.assign(self, issue, self.add_user(login), self.add_user(by))
        await self.wait_until_delivered()

    async def close_issue(self, issue: Issue, by: str) -> None:
        """Close an issue, or a pull request without merging."""
        issue_actions.close_issue(self, issue, self.add_user(by))
        await self.wait_until_delivered()

    async def reopen_issue(self, issue: Issue, by: str) -> None:
        issue_actions.reopen_issue(self, issue, self.add_user(by))
        await self.wait_until_delivered()

    async def delete_issue(self, issue: Issue, by: str) -> None:
        issue_actions.delete_issue(self, issue, self.add_user(by))
        await self.wait_until_delivered()

    async def transfer_issue(self, issue: Issue, to: Repo, by: str) -> Issue:
        """Transfer an issue and return it in its new repository."""
        moved = issue_actions.transfer_issue(self, issue, to, self.add_user(by))
        await self.wait_until_delivered()
        return moved

    async def comment(self, issue: Issue, body: str, author: str) -> Comment:
        comment = issue_actions.add_comment(self, issue, body, self.add_user(author))
        await self.wait_until_delivered()
        return comment

    async def edit_comment(self, comment: Comment, body: str, by: str) -> None:
        issue_actions.edit_comment(self, comment, body, self.add_user(by))
        await self.wait_until_delivered()

    async def delete_comment(self, comment: Comment, by: str) -> None:
        issue_actions.delete_comment(self, comment, self.add_user(by))
        await self.wait_until_delivered()

    async def open_pull(self, repo: Repo, head: str, title: str, by: str) -> Pull:
        """Open a pull request from a branch into the default branch."""
        new_pull = pull_actions.NewPull(title, None, head, repo.default_branch)
        pull = await pull_actions.open_pull(self, repo, new_pull, self.add_user(by))
        await self.wait_until_delivered()
        return pull

    async def merge(self, pull: Pull, by: str, *, squash: bool = False) -> str:
        """Merge, close the issues that the pull request fixes, and return the merge commit's id."""
        sha = await pull_actions.merge(self, pull, self.add_user(by), squash=squash)
        await self.wait_until_delivered()
        return sha

    async def review(
        self,
        pull: Pull,
        by: str,
        body: str = "",
        state: str = "COMMENTED",
        lines: Iterable[tuple[str, int, str]] = (),
    ) -> Review:
        """Add a review with comments on lines: path, line, text."""
        made = Review(self.next_id(), self.add_user(by), body, state, pull.head_sha)
        made.comments += [
            ReviewComment(self.next_id(), made, path, line, "RIGHT", text, "@@ -1 +1 @@\n x")
            for path, line, text in lines
        ]
        pull_actions.add_review(self, pull, made)
        await self.wait_until_delivered()
        return made

    # Repositories and installations

    async def commit(
        self, repo: Repo, branch: str, files: dict[str, str | None], message: str, by: str
    ) -> str:
        """Push a commit that changes `files` (None deletes); creates the branch if it is new."""
        git = repo.git
        before = git.list_refs("")
        parent = git.resolve(f"refs/heads/{branch}") or git.resolve(repo.default_branch)
        if parent is not None and f"refs/heads/{branch}" not in before:
            git.set_ref(f"refs/heads/{branch}", parent)
        blobs = {
            path: None if text is None else ("100644", git.write_blob(text.encode()))
            for path, text in files.items()
        }
        tree = git.write_paths(git.read_commit(parent).tree if parent else None, blobs)
        sha = commit_tree(git, tree, branch, message)
        await pull_actions.announce_ref_changes(
            self, repo, before, git.list_refs(""), self.add_user(by)
        )
        await self.wait_until_delivered()
        return sha

    async def install(self, repo: Repo) -> None:
        """Add the repository to the App's installation, as its owner."""
        new = self.find_installation(repo.owner) is None
        one = self.add_to_installation(repo)
        if new:
            events.send_installation_event(self, one, "created", repo.owner)
        else:
            events.send_selection_event(self, one, repo.owner, [repo], [])
        await self.wait_until_delivered()

    async def uninstall(self, repo: Repo) -> None:
        """Remove the repository from the installation, which ends with its last repository."""
        one = repo.installation
        if one is None:
            return
        if one.repos == [repo]:
            events.send_installation_event(self, one, "deleted", repo.owner)
            del self.installations[one.id]
            self.tokens.revoke(one)
        else:
            events.send_selection_event(self, one, repo.owner, [], [repo])
        one.repos.remove(repo)
        repo.installation = None
        await self.wait_until_delivered()

    async def suspend(self, repo: Repo, by: str) -> None:
        """Suspend the installation: no token is made or taken until it is unsuspended."""
        one = repo.installation
        assert one is not None
        one.suspended_at = now()
        self.tokens.revoke(one)
        events.send_installation_event(self, one, "suspend", self.add_user(by))
        await self.wait_until_delivered()

    async def unsuspend(self, repo: Repo, by: str) -> None:
        one = repo.installation
        assert one is not None
        one.suspended_at = None
        events.send_installation_event(self, one, "unsuspend", self.add_user(by))
        await self.wait_until_delivered()

    async def rename_repo(self, repo: Repo, name: str) -> None:
        """Rename it, as its owner. Its old name redirects."""
        old = repo.name
        self.move_repo(repo, repo.owner, name)
        changes = {"repository": {"name": {"from": old}}}
        events.send_repository_event(self, repo, "renamed", repo.owner, changes=changes)
        await self.wait_until_delivered()

    async def transfer_repo(self, repo: Repo, to: str) -> None:
        """Give it to another account; the App keeps access if it is installed there."""
        before, one = repo.owner, repo.installation
        owner = self.add_user(to)
        if one is not None:
            events.send_selection_event(self, one, before, [], [repo])
            one.repos.remove(repo)
            repo.installation = None
        self.move_repo(repo, owner, repo.name)
        new = self.find_installation(owner)
        if new is not None:
            self.add_to_installation(repo)
            events.send_selection_event(self, new, owner, [repo], [])
        kind = "organization" if before.type == "Organization" else "user"
        former = {"owner": {"from": {kind: repository_json.user(before)}}}
        events.send_repository_event(self, repo, "transferred", before, changes=former)
        await self.wait_until_delivered()

    async def rename_default_branch(self, repo: Repo, name: str) -> None:
        """Rename the default branch; open pull requests follow it."""
        git, old, before = repo.git, repo.default_branch, repo.git.list_refs("")
        git.set_ref(f"refs/heads/{name}", before[f"refs/heads/{old}"])
        run_git(git.path, "symbolic-ref", "HEAD", f"refs/heads/{name}")
        git.delete_ref(f"refs/heads/{old}")
        repo.default_branch = name
        for pull in repo.pulls:
            pull.base_ref = name if pull.base_ref == old else pull.base_ref
        changes = {"default_branch": {"from": old}}
        events.send_repository_event(self, repo, "edited", repo.owner, changes=changes)
        await pull_actions.announce_ref_changes(self, repo, before, git.list_refs(""), repo.owner)
        await self.wait_until_delivered()

    async def archive_repo(self, repo: Repo) -> None:
        """Make it read-only, as its owner."""
        repo.archived = True
        events.send_repository_event(self, repo, "archived", repo.owner)
        await self.wait_until_delivered()

    async def delete_repo(self, repo: Repo) -> None:
        """Delete the repository with its git data. GitHub notifies Apps that they lost access."""
        events.send_repository_event(self, repo, "deleted", repo.owner)
        await self.uninstall(repo)
        del self.repos[repo.full_name.lower()]
        shutil.rmtree(repo.git.path)

    # Tokens and limits

    def create_personal_token(self, login: str) -> str:
        """Create a token with which a person may use REST and git."""
        return self.tokens.create_for_person(self.add_user(login)).value

    def expire_tokens(self) -> None:
        """Invalidate all installation tokens: they get 401 from now on."""
        self.tokens.expire()

    def limit_rate(self, requests: int, reset_in: float, *, secondary: bool = False) -> None:
        """After `requests` more REST calls, respond 403 (secondary: 429) for `reset_in` seconds."""
        self.limit.allow(requests, reset_in, secondary=secondary)
