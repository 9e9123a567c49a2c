"""A chosen edit to a branch and a pull request, registered for follow-up.

Every effect is find-or-create and renews the lease first. After a crash anywhere, the same call
finds what is there and opens no second pull request.

https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests
"""

import dataclasses
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bot.comments import pull_request
from bot.comments.evidence import UNPROVEN_LABEL
from bot.comments.run_details import destinations_note, external_hosts
from bot.comments.status import pull_marker
from bot.data.github_facts import CoAuthor, Identity, PullRequestFacts
from bot.data.job import Outcome
from bot.data.pull import CommitStyle, PullRecord
from bot.data.run import Mode, Run, now
from bot.errors import (
    Forbidden,
    InstallationSuspended,
    NotFound,
    PublishRefused,
    PushRejected,
    RepositoryGone,
    Unprocessable,
)
from bot.git.commits import branch_name, create_commit, detect_commit_style, push
from bot.git.push_refusals import find_problem
from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.runs.context import ABSENT_KEY, Absent, IssueRun
from bot.runs.moved_base import PublicationBase, choose_base
from bot.runs.signed_commits import prepare_push
from bot.storage.lease import Lease
from bot.visible_text import strip_comments
from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths, remove_files
from pipeline.data.types import Account, CommitSha, Issue, Selection
from pipeline.store import load_or_run
from sandbox.frozen import replace


@dataclass(frozen=True)
class Publication:
    """A chosen edit, and everything that its commits and its pull request say."""

    run: Run
    issue: Issue
    selection: Selection
    accounts: Sequence[Account] = ()
    destinations: str = ""
    """The hosts that the code was sent to, as a sentence; empty: no other than the operator's."""
    draft: bool = True
    ready_when_green: bool = False
    """A draft only until the repository's own checks pass."""
    revises: bool = True
    """Reviews of it are answered."""
    absent: tuple[str, ...] = ()
    """What of the repository the sandbox lacked: submodules, files of Git LFS."""
    commit_style: CommitStyle = field(default_factory=CommitStyle)
    template: str | None = None
    labels: tuple[str, ...] = ()
    co_author: CoAuthor = field(kw_only=True)

    @property
    def title(self) -> str:
        return self.commit_style.format_title(
            "fix", pull_request.pull_title(self.selection, self.run.issue)
        )

    def body(self, run: Run) -> str:
        return pull_request.pull_body(
            run,
            self.selection,
            self.accounts,
            self.template,
            destinations=self.destinations,
            revises=self.revises,
            absent=self.absent,
        )

    def commit_message(self, title: str, body: str, identity: Identity) -> str:
        return self.commit_style.format_message(title, body, identity, self.co_author)


@contextmanager
def refusals() -> Generator[None]:
    """Raise PublishRefused, with GitHub's words, where GitHub takes nothing from us."""
    try:
        yield
    except RepositoryGone as error:
        raise PublishRefused("gone") from error
    except (Forbidden, NotFound, Unprocessable) as error:
        lost = isinstance(error, NotFound | InstallationSuspended)
        problem = "gone" if lost else find_problem(error.words)
        raise PublishRefused(problem, error.words) from error


async def publish(publication: Publication, ctx: IssueRun) -> PullRequestFacts:
    """Open the pull request; when there can be none, leave nothing half made behind.

    Raises:
        PublishRefused: the repository's rules forbid it; the branch is deleted again.
        LeaseLost: another worker has the run. GitHubUnavailable: try again later.
    """
    run = ctx.run
    # An earlier try's, even if people have pushed to its branch since.
    pull = await ctx.repo.pulls.find(run.branch, pull_marker(run.id)) if run.branch else None
    if pull is None:
        pull = await _publish_on_base(publication, ctx)
    await ctx.lease.require()
    await ctx.repo.pulls.request_review(pull.number, publication.run.asked_by)
    if publication.labels:
        await ctx.lease.require()
        with suppress(Unprocessable, Forbidden, NotFound):  # no label is worth the pull request
            await ctx.repo.issues.add_labels(pull.number, publication.labels)
    return pull


async def _publish_on_base(publication: Publication, ctx: IssueRun) -> PullRequestFacts:
    """Look again if GitHub says that workflow files have changed since."""
    ctx = await _follow_renamed_base(ctx)
    local = await _create_commits(publication, ctx)
    try:
        base, branch = await _push_on_base(publication, local, ctx)
    except PushRejected as refused:
        if refused.facts.problem != "workflows":
            raise
        base, branch = await _push_on_base(publication, local, ctx, anew=True)
    return await _open_pull(_with_note(publication, base.note), branch, ctx)


async def _follow_renamed_base(ctx: IssueRun) -> IssueRun:
    """The base branch may have another name by now."""
    facts = await ctx.repo.get_facts() or ctx.facts
    ctx = dataclasses.replace(ctx, facts=facts)
    base = ctx.config.base_branch
    if not base or await ctx.repo.get_branch_head(base) is not None:
        return ctx
    name = await ctx.repo.find_branch_name(base)
    return dataclasses.replace(ctx, config=replace(ctx.config, base_branch=name)) if name else ctx


async def _push_on_base(
    publication: Publication, local: CommitSha, ctx: IssueRun, *, anew: bool = False
) -> tuple[PublicationBase, str]:
    base = await choose_base(ctx, local, publication.selection, publication.issue, anew=anew)
    await prepare_record(ctx.lease, publication, base=base.base, base_branch=ctx.checkout.branch)
    ready = await prepare_push(ctx, base=base.base, since=base.base, head=base.head)
    return base, await _push(publication, ready.head, ctx)


def _with_note(publication: Publication, note: str) -> Publication:
    """The publication whose description also holds `note`."""
    if not note:
        return publication
    selection = publication.selection
    evidence = replace(selection.evidence, notes=(note, *selection.evidence.notes))
    return dataclasses.replace(publication, selection=replace(selection, evidence=evidence))


async def _create_commits(publication: Publication, ctx: IssueRun) -> CommitSha:
    """Commit the failing test, if there is one, then the rest of the edit.

    Dated by the run, so each try makes the same commits.
    """
    run, selection, author = publication.run, publication.selection, ctx.repo.identity
    style, test_title = publication.commit_style, pull_request.reproduction_title(run.issue)
    parent, test = ctx.checkout.base, selection.evidence.reproduction
    if test.is_committed:
        parent = await create_commit(
            ctx.checkout.git_dir,
            parent=parent,
            diff=test.diff,
            message=publication.commit_message(style.format_title("test", test_title), "", author),
            author=author,
            at=run.created_at,
        )
    body = pull_request.commit_body(selection)
    return await create_commit(
        ctx.checkout.git_dir,
        parent=parent,
        diff=remove_files(selection.candidate.patch.diff, list_paths(test.diff)),
        message=publication.commit_message(publication.title, body, author),
        author=author,
        at=run.created_at,
    )


async def _push(publication: Publication, head: CommitSha, ctx: IssueRun) -> str:
    """The name of the branch that points at `head`: an earlier try's, or one that nobody uses.

    A branch of that name that points elsewhere may hold somebody's work; it stays untouched.
    """
    repo, lease, prefix = ctx.repo, ctx.lease, ctx.config.branch_prefix
    for attempt in range(1, 21):
        branch = branch_name(prefix, publication.run.issue, publication.issue.title, attempt)
        found = await repo.get_branch_head(branch)
        if found == head:
            return branch
        # An earlier try pushed other commits, such as onto a base that has moved since.
        is_ours = branch == lease.run.branch and found == lease.run.head_commit
        if found is not None and not is_ours:
            continue
        await repo.count_push()
        await lease.save(replace(lease.run, branch=branch, head_commit=head))
        try:
            await push(ctx.checkout.git_dir, ctx.remote, sha=head, branch=branch, expected=found)
        except PushRejected:
            if await repo.get_branch_head(branch) is None:
                raise
            continue
        return branch
    raise PublishRefused("names taken")


async def _open_pull(publication: Publication, branch: str, ctx: IssueRun) -> PullRequestFacts:
    await ctx.lease.require()
    run = publication.run
    try:
        return await ctx.repo.pulls.open_once(
            branch=branch,
            base=ctx.checkout.branch,
            title=publication.title,
            body=publication.body(replace(run, finished_at=run.finished_at or now())),
            marker=pull_marker(run.id),
            draft=publication.draft,
        )
    except (Unprocessable, Forbidden, NotFound) as error:
        await ctx.lease.require()
        await _delete_branch(ctx.repo, branch)
        if isinstance(error, NotFound | InstallationSuspended):
            raise
        there = await ctx.repo.get_branch_head(ctx.base_branch)
        problem = "pull request" if there else "base gone"
        raise PublishRefused(problem, error.words) from error


async def delete_unused_branch(run: Run, *, repo: Repository, lease: Lease) -> None:
    """Delete the branch of a run without a pull request, if it is as the run left it.

    Raises:
        LeaseLost, GitHubUnavailable.
    """
    if not run.branch or await repo.get_branch_head(run.branch) != run.head_commit:
        return
    if await repo.pulls.find(run.branch, pull_marker(run.id)) is None:
        await lease.require()
        await _delete_branch(repo, run.branch)


async def _delete_branch(repo: Repository, branch: str) -> None:
    with suppress(Forbidden, NotFound):  # we may not, or it is gone
        await repo.delete_branch(branch)


FOLDERS: Final = (".github/", "", "docs/")
"""In GitHub's order."""
NAMES: Final = ("pull_request_template.md", "pull_request_template.txt", "pull_request_template")
MAX_CHARACTERS: Final = 20_000


async def find_template(repo: Repository, codebase: Codebase) -> str | None:
    """The visible text of the template; None when there is none.

    The repository's own comes first, of several in a folder the first; then its owner's.

    Raises:
        GitHubError: from reading the owner's defaults.
    """
    text = await _find_own(codebase)
    if repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        names = ("PULL_REQUEST_TEMPLATE.md", "pull_request_template.md")
        for path in (folder + name for folder in FOLDERS for name in names):
            if text is None:
                text = await repo.read_defaults_file(*path.split("/"))
    if text is None or len(text) > MAX_CHARACTERS:
        return None
    return strip_comments(text.replace("\r\n", "\n")).strip() or None


async def _find_own(codebase: Codebase) -> str | None:
    by_name = {path.lower(): path for path in codebase.files}
    single = [by_name[f + n] for f in FOLDERS for n in NAMES if f + n in by_name]
    inside = [f"{folder}pull_request_template/" for folder in FOLDERS]
    several = [by_name[p] for folder in inside for p in sorted(by_name) if p.startswith(folder)]
    for path in (*single, *several):
        if text := await codebase.read_text(path):
            return text
    return None


COMMIT_STYLE_KEY = "manners"


async def prepare_publication(fix: Outcome[Selection], issue: Issue, ctx: IssueRun) -> Publication:
    """The chosen edit with the repository's template, labels and commit style.

    Raises:
        GitHubError: from reading the repository.
    """
    run, config, settings = ctx.run, ctx.config, ctx.settings
    codebase = await Codebase.open(ctx.checkout.git_dir, ctx.checkout.base)
    hosts = external_hosts(fix.sent_to, settings, by_app=True)
    proven, suite = fix.result.is_shown, fix.result.evidence.suite
    breaks = suite is not None and bool(suite.broken)
    waits = not isinstance(config.draft, bool) and not settings.one_shot
    return Publication(
        run=run,
        issue=issue,
        selection=fix.result,
        accounts=fix.accounts,
        destinations=destinations_note(hosts, fix.accounts, by_app=True),
        draft=not proven
        or breaks
        or ((waits or config.draft is True) and run.mode is not Mode.AUTO),
        ready_when_green=proven and not breaks and waits,
        absent=(await ctx.store.load(ABSENT_KEY, Absent) or Absent()).paths,
        revises=config.follows_reviews and not settings.one_shot,
        # What the first worker found: after a crash, the next makes the same commits.
        commit_style=await load_or_run(
            ctx.store,
            COMMIT_STYLE_KEY,
            CommitStyle,
            partial(
                detect_commit_style,
                ctx.repo,
                config.commits,
                codebase,
                f"{issue.title}\n{issue.body}",
            ),
        ),
        template=await find_template(ctx.repo, codebase),
        labels=config.labels if proven else (*config.labels, settings.label + UNPROVEN_LABEL),
        co_author=await ctx.repo.find_co_author(run.asked_by),
    )


PREPARED_KEY: Final = "pull-record"


async def prepare_record(
    lease: Lease, publication: Publication, *, base: CommitSha, base_branch: str
) -> None:
    """Save what a later worker must know if it finds the pull request open."""
    run = lease.run
    test = publication.selection.evidence.reproduction
    record = PullRecord(
        repo=run.repo,
        pull=0,
        issue=run.issue,
        source_issue=publication.issue,
        asked_by=run.asked_by,
        commit_style=publication.commit_style,
        branch="",
        base=base,
        base_branch=base_branch,
        head=CommitSha(""),
        test_path=test.path,
        test_files=tuple(sorted(list_paths(test.diff))),
        proven=publication.selection.is_shown,
        command=test.command,
        ready_when_green=publication.ready_when_green,
    )
    await lease.checkpoints.save(PREPARED_KEY, record)


async def register_pull(lease: Lease, pull: PullRequestFacts) -> None:
    """Record the pull request and create its first follow-up run. Calling it again changes nothing.

    Does nothing for a pull request that `prepare_record` did not prepare.

    Raises:
        LeaseLost: another worker has the run.
    """
    run = lease.run
    prepared = await lease.checkpoints.load(PREPARED_KEY, PullRecord)
    if prepared is None:
        return
    await lease.require()
    if await lease.storage.pulls.get(run.repo, pull.number) is None:
        opened = {
            "pull": pull.number,
            "branch": pull.head_branch,
            "head": run.head_commit,
            "ready_when_green": prepared.ready_when_green and pull.draft,
        }
        record = replace(prepared, **opened)
        # The first follow-up run is created at once; look again if it gets lost.
        await lease.storage.pulls.put(record, due_in=3600.0)
    await lease.storage.runs.create(
        run.repo,
        pull.number,
        asked_by=run.asked_by,
        delivery=f"opened-{run.id}",
        mode=Mode.FOLLOW_UP,
    )
