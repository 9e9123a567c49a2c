"""GitHub's JSON as its documents have it."""

from __future__ import annotations

from capuchin_demo.hub.git_repository import ChangedFile, Commit, Entry
from capuchin_demo.hub.shapes import Json, Shapes
from capuchin_demo.hub.state import (
    AppInstallation,
    CheckRun,
    Comment,
    Issue,
    Label,
    Pull,
    Reaction,
    Repo,
    Review,
    TimelineEntry,
    User,
)
from capuchin_demo.hub.tokens import AppIdentity
from tests.support.github import events, git_json, issue_json, repository_json
from tests.support.github.hub_state import GitHubState


class GitHubShapes(Shapes):
    def __init__(self, hub: GitHubState) -> None:
        self._hub = hub

    def user(self, account: User) -> Json:
        return repository_json.user(account)

    def app(self, identity: AppIdentity) -> Json:
        return repository_json.app(identity, self._hub.bot)

    def installation(self, one: AppInstallation) -> Json:
        return repository_json.installation(self._hub.app, one)

    def repository(self, repo: Repo) -> Json:
        return repository_json.repository(repo)

    def label(self, repo: Repo, one: Label) -> Json:
        return repository_json.label(repo, one)

    def permission(self, repo: Repo, account: User) -> Json:
        return repository_json.permission(repo, account)

    def issue(self, one: Issue) -> Json:
        return issue_json.issue(one)

    def comment(self, one: Comment) -> Json:
        return issue_json.comment(one)

    def reaction(self, one: Reaction) -> Json:
        return issue_json.reaction(one)

    def history_event(self, one: Issue, entry: TimelineEntry) -> Json:
        return issue_json.history_event(one, entry)

    def cross_reference(self, by: Issue) -> Json:
        return issue_json.cross_reference(by)

    def simple_pull(self, one: Pull) -> Json:
        return issue_json.simple_pull(one)

    def pull(self, one: Pull) -> Json:
        return issue_json.pull(one, self._hub.pull_facts(one))

    def review(self, one: Pull, submission: Review) -> Json:
        return issue_json.review(one, submission)

    def push(self, repo: Repo, ref: str, before: str, after: str, by: User) -> Json:
        return events.push_payload(repo, ref, before, after, by)

    def ref(self, repo: Repo, name: str, sha: str) -> Json:
        return git_json.ref(repo, name, sha)

    def git_commit(self, repo: Repo, one: Commit) -> Json:
        return git_json.git_commit(repo, one, one.sha in self._hub.verified)

    def commit(self, repo: Repo, one: Commit, author: User | None) -> Json:
        return git_json.commit(repo, one, author, one.sha in self._hub.verified)

    def tree(self, repo: Repo, sha: str, entries: list[Entry]) -> Json:
        return git_json.tree(repo, sha, entries)

    def branch(self, repo: Repo, name: str, sha: str) -> Json:
        return git_json.branch(repo, name, sha)

    def diff_entry(self, repo: Repo, one: ChangedFile, sha: str) -> Json:
        return git_json.diff_entry(repo, one, sha)

    def check_run(self, repo: Repo, one: CheckRun, app: AppIdentity) -> Json:
        return git_json.check_run(repo, one, self._hub.suite_of[one.id], self.app(app))
