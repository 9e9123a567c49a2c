"""The table of verbs, and what each does.

Every effect is find-or-create, because the command may run again.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from bot.commands.command import Answer, CommandContext, CommandHandler, Verb
from bot.commands.report import show_stats
from bot.comments import candidates as candidate_texts
from bot.comments import replies, settings_file
from bot.comments.replies import Reply
from bot.comments.settings_file import render_config
from bot.comments.status import find_run
from bot.data.github_facts import PullRequestFacts
from bot.data.request import CommandRequest, Delay, PullUpdate, RunRequest, StartOutcome
from bot.data.run import CommentLocation, Mode, Run, RunId, RunStatus, Stop, StopReason, now
from bot.errors import Forbidden, NotFound, PublishRefused, Unprocessable
from bot.followup.schedule import RETRY_SECONDS, schedule_follow_up
from bot.git.commits import detect_commit_style
from bot.queue.jobs import RetryLater, RunQueue
from bot.queue.position import load_queue
from bot.repo_config.model import CONFIG_PATHS, LayerProblem
from bot.runs.further_samples import count_samples
from bot.runs.publish import refusals
from bot.safe_text import make_marker
from bot.storage.keys import BRANCH_HISTORY_KEY
from bot.storage.pulls import BranchHistory
from bot.storage.runs import Runs, latest_published
from pipeline.data.types import NoFix, Selection
from pipeline.environment.prepare import load_working_setup
from pipeline.models.metering import CEILING_KEY, LEDGER_KEY, Ledger, RaisedCeiling
from pipeline.selection.verdict import rank_result, to_rank
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult, load_end
from sandbox.frozen import replace

MOST_SAMPLES: Final = 100
"""Of one run; as `samples` in the settings."""


def start_command(mode: Mode) -> CommandHandler:
    """A verb that starts a run. While the issue has another run, the command waits."""

    async def begin(ctx: CommandContext) -> RetryLater | None:
        request, queue = ctx.request, ctx.queue
        at = await queue.runs.get_stop_time(request.repo, request.issue)
        if at is not None and at > request.at:  # a later stop applies to it, too
            return None
        return await wait_for_run(ctx, await start_run(request, mode, queue))

    return begin


async def wait_for_run(ctx: CommandContext, outcome: StartOutcome) -> RetryLater | None:
    """Retry the command while the issue has a run; reply once that it waits."""
    if outcome is not StartOutcome.RUNNING:
        return None  # the run reports on the issue
    if not ctx.item.is_waiting:
        await ctx.reply(Reply.WAITS.format(name=ctx.settings.app_name))
    return RetryLater(replace(ctx.item, is_waiting=True), RETRY_SECONDS)


async def fix(ctx: CommandContext) -> Answer:
    """Start a run on an issue; on our own pull request, follow the comment like a review."""
    request = ctx.request
    if request.location is CommentLocation.ISSUE:
        return await start_command(Mode.FIX)(ctx)
    record = await ctx.queue.storage.pulls.get(request.repo, request.issue)
    if record is None:
        return Reply.FOREIGN_PULL
    if record.handed_over:
        return Reply.HANDED_OVER
    if not ctx.config.follows_reviews:
        return Reply.NOT_FOLLOWED
    update = PullUpdate(
        repo=request.repo,
        target="pull",
        number=request.issue,
        delay=Delay.DEBOUNCED,
        by=request.by,
        delivery=request.id,
    )
    return await schedule_follow_up(ctx.item, update, ctx.queue, ctx.settings)


async def start_run(
    request: CommandRequest | RunRequest, mode: Mode, queue: RunQueue
) -> StartOutcome:
    """Create the requested run and tell a worker, unless the issue has a run.

    A `RunRequest` is a label that was added during another run.
    """
    fields: dict[str, Any]
    if isinstance(request, CommandRequest):
        by = request.by
        pulls = tuple(dict.fromkeys(request.command.numbers)) if mode is Mode.JUDGE else ()
        anyway = request.command.anyway
        fields = {"confirmed": anyway, "anyway": anyway, "pulls": pulls}
    else:
        by, fields = request.asked_by, {"label": request.label}
    result = await queue.runs.create(
        request.repo,
        request.issue,
        asked_by=by,
        delivery=request.id,
        version=request.version,
        join=False,
        mode=mode,
        asked_at=request.at,
        **fields,
    )
    if result.outcome is StartOutcome.CREATED:
        await queue.send(result.run_id, 0)
    return result.outcome


async def stop(ctx: CommandContext) -> Answer:
    """Stop the run of the issue or of our pull request, and drop the commands that wait for it.

    A run that was requested after this command continues: comments arrive late and out of order.
    """
    request, runs = ctx.request, ctx.queue.runs
    run = await runs.get_current(request.repo, request.issue)
    result = None if run is None else await runs.get_last_request_time(run)
    if result is not None and result > request.at:
        return None
    command = Stop(by=request.by, why=StopReason.COMMAND, at=request.at)
    if await runs.request_stop(request.repo, request.issue, command) is None:
        return Reply.NOTHING_TO_STOP
    return None


async def is_stopped_since(request: CommandRequest | RunRequest, runs: Runs) -> bool:
    """Whether a stop came after the request; a stop ends waiting requests, too."""
    at = await runs.get_stop_time(request.repo, request.issue)
    return at is not None and request.at is not None and at >= request.at


async def judge(ctx: CommandContext) -> Answer:
    numbers, name = set(ctx.request.command.numbers), ctx.settings.app_name
    if not 1 <= len(numbers) <= 20:
        return Reply.WHICH_PULLS.format(name=name, most=20)
    if ctx.request.issue in numbers:
        return Reply.JUDGE_ISSUE.format(name=name, issue=ctx.request.issue)
    return await start_command(Mode.JUDGE)(ctx)


async def use(ctx: CommandContext) -> Answer:
    source, candidates = await _find_candidates(ctx)
    if source is None:
        return Reply.NOTHING_TO_USE
    if candidates is None:
        return Reply.EDITS_EXPIRED
    if candidates.pull is not None and candidates.closed:
        over = Reply.PULL_CLOSED if candidates.closed == "closed" else Reply.PULL_MERGED
        return over.format(number=candidates.pull)
    command = ctx.request.command
    rank = None if command.letter is None else to_rank(command.letter)
    if rank is None or rank >= len(rank_result(candidates.result)):
        say = "Please name one of my edits by its letter."
        if rank is None and command.numbers:
            say = "My edits have letters, not numbers."
        listed = candidate_texts.candidates_reply(ctx.settings.app_name, candidates)
        return f"{say} {listed}"
    return await _build_on(ctx, source, Mode.USE, candidate=rank + 1, anyway=command.anyway)


async def draw_more(ctx: CommandContext) -> Answer:
    """Start a run that takes over the samples of a finished one and draws further ones."""
    source, _ = await _find_candidates(ctx)
    name, drawn, runs = ctx.settings.app_name, 0, ctx.queue.runs
    while source is not None:
        drawn = await count_samples(ctx.queue.storage.checkpoints(source.id))
        if drawn:
            break
        source = await runs.get_readable(source.published_run) if source.published_run else None
    if source is None:
        return Reply.NO_SAMPLES.format(name=name)
    wanted = (*ctx.request.command.numbers, ctx.config.options().first_wave)[0]
    total = min(drawn + wanted, MOST_SAMPLES)
    if total <= drawn:
        some = Reply.HOW_MANY_SAMPLES if drawn < MOST_SAMPLES else Reply.ALL_SAMPLES_DRAWN
        return some.format(name=name, left=MOST_SAMPLES - drawn)
    return await _build_on(ctx, source, Mode.FIX, more=total, anyway=True)


async def _build_on(
    ctx: CommandContext, source: Run, mode: Mode, **fields: Any
) -> RetryLater | None:
    """Start a run that builds on what `source` has found."""
    request, queue = ctx.request, ctx.queue
    result = await queue.runs.create(
        request.repo,
        source.issue,
        asked_by=request.by,
        delivery=request.id,
        join=False,
        mode=mode,
        published_run=source.id,
        base_commit=source.base_commit,
        asked_at=request.at,
        asked_on=request.issue if request.location is not CommentLocation.ISSUE else 0,
        confirmed=True,
        **fields,
    )
    if result.outcome is StartOutcome.CREATED:
        await queue.send(result.run_id, 0, mode.lane)
    return await wait_for_run(ctx, result.outcome)


async def raise_budget(ctx: CommandContext) -> Answer:
    """Raise the ceiling of the run under way: to the repository's for a day, or else to twice."""
    request, settings = ctx.request, ctx.settings
    run = await ctx.queue.runs.get_current(request.repo, request.issue)
    wanted, name, usual = request.command.dollars, settings.app_name, ctx.config.budget.run
    by_day = (ctx.config.budget.day, settings.budget_day)
    most = min(filter(None, by_day), default=2 * usual)
    if run is None:
        return Reply.NOTHING_TO_RAISE.format(name=name)
    store = ctx.queue.storage.checkpoints(run.id)
    raised = await store.load(CEILING_KEY, RaisedCeiling)
    least = max(usual, raised.dollars if raised else 0.0)
    if most <= least:
        return Reply.CEILING_IS_HIGHEST.format(run=least)
    if wanted is None or not least < wanted <= most:
        return Reply.WHICH_CEILING.format(name=name, run=least, most=most)
    await store.save(CEILING_KEY, RaisedCeiling(dollars=wanted))
    return Reply.CEILING_RAISED.format(dollars=wanted)


async def list_edits(ctx: CommandContext) -> str:
    """The edits that `use` can choose from, for `explain`; empty when there is no choice.

    They belong to the latest run that opened a pull request or ended without a fix.
    """
    _, candidates = await _find_candidates(ctx)
    if candidates is None or candidates.closed:
        return ""
    if candidates.pull is not None and len(rank_result(candidates.result)) < 2:
        return ""
    return candidate_texts.candidates_reply(ctx.settings.app_name, candidates)


async def _find_candidates(
    ctx: CommandContext,
) -> tuple[Run | None, candidate_texts.PullCandidates | None]:
    """The run whose edits `use` offers, and its edits unless they have expired.

    A run without a fix and without edits is skipped for the one before it.
    """
    source = await _find_source(ctx)
    while source is not None:
        found = await _load_candidates(ctx, source)
        if found is not None or source.pull_request is not None:
            return source, found
        earlier = source.published_run
        source = await ctx.queue.runs.get_readable(earlier) if earlier else None
    return None, None


async def _load_candidates(
    ctx: CommandContext, source: Run
) -> candidate_texts.PullCandidates | None:
    """The edits of `source`; None when they have expired."""
    store = ctx.queue.storage.checkpoints(source.id)
    result = await load_end(store)
    if isinstance(result, NoFix) and result.edits is not None:
        return candidate_texts.PullCandidates(result, None, None)
    if not isinstance(result, Selection):
        return None
    if source.pull_request is None:
        return candidate_texts.PullCandidates(result, None, None) if source.is_unpublished else None
    contents = await store.load(BRANCH_HISTORY_KEY, BranchHistory) or BranchHistory.from_run(source)
    pull = await ctx.repo.pulls.get(source.pull_request)
    state = contents.state_at(pull.head_sha) if pull else None
    closed: Literal["", "closed", "merged"]
    closed = (
        "" if pull is None or pull.state == "open" else "merged" if pull.merged_at else "closed"
    )
    return candidate_texts.PullCandidates(
        result, source.pull_request, state.candidate if state else None, closed
    )


async def _find_source(ctx: CommandContext) -> Run | None:
    """The run that opened this pull request, or the latest pull request of this issue."""
    request, runs = ctx.request, ctx.queue.runs
    if request.location is CommentLocation.ISSUE:
        run_id = latest_published(await runs.get_latest(request.repo, request.issue))
    else:
        pull = await ctx.repo.pulls.get(request.issue)
        ours = pull is not None and pull.author == ctx.repo.identity.login
        run_id = find_run(pull.body or "") if pull and ours else None
    run = await runs.get_readable(run_id) if run_id else None
    if run is None or run.repo.id != request.repo.id:
        return None
    here = request.location is CommentLocation.ISSUE or run.pull_request == request.issue
    return run if here else None


async def propose_config(ctx: CommandContext) -> str:
    """Open the pull request; returns its number, or the reason why not, in a sentence."""
    store = ctx.queue.storage.repository(ctx.request.repo, RunId(ctx.request.id))
    working = await load_working_setup(store)
    for path in CONFIG_PATHS:
        if await ctx.repo.read_file(*path.split("/")) is not None:
            return settings_file.file_exists(path, working)
    branches = f"{ctx.config.branch_prefix}settings-"
    marker = make_marker("settings", ctx.request.id)
    pull = await _find_proposal(ctx, branches, marker)
    text = settings_file.render_file(ctx.settings.public_url, working)
    try:
        with refusals():
            pull = pull or await _open_proposal(
                ctx, f"{branches}{ctx.request.id}", marker, text, sets_up=working is not None
            )
    except PublishRefused as refused:
        return settings_file.proposal_refused(refused.facts, text)
    return Reply.SETTINGS_PROPOSED.format(number=pull.number) if pull else Reply.NO_COMMITS


async def _find_proposal(
    ctx: CommandContext, branches: str, marker: str
) -> PullRequestFacts | None:
    """An open proposal, or the one that an earlier try of this command opened."""
    async for branch in ctx.repo.list_branches():
        if branch.startswith(branches):
            found = await ctx.repo.pulls.find(branch, marker)
            if found is not None:
                return found
    return None


async def _open_proposal(
    ctx: CommandContext, branch: str, marker: str, text: str, *, sets_up: bool
) -> PullRequestFacts | None:
    """None for an empty repository. Raises PublishRefused, GitHubError."""
    repo, request = ctx.repo, ctx.request
    facts = await repo.get_facts()
    base = await repo.get_branch_head(facts.default_branch) if facts else None
    if facts is None or base is None:
        return None
    style = await detect_commit_style(repo, ctx.config.commits)
    title = style.format_title("chore", settings_file.PULL_TITLE)
    co_author = await repo.find_co_author(request.by)
    message = style.format_message(title, "", repo.identity, co_author)
    await repo.create_branch_with(
        branch, base=base, path=settings_file.PATH, text=text, message=message
    )
    try:
        pull = await repo.pulls.open_once(
            branch=branch,
            base=facts.default_branch,
            title=title,
            body=settings_file.pull_body(request.by, marker, sets_up=sets_up),
            marker=marker,
            draft=False,
        )
    except (Forbidden, NotFound, Unprocessable) as error:
        await repo.delete_branch(branch)
        raise PublishRefused("pull request", error.words) from error
    await repo.pulls.request_review(pull.number, request.by)
    return pull


async def show_status(ctx: CommandContext) -> str:
    run = await ctx.queue.runs.get_current(ctx.request.repo, ctx.request.issue)
    run = await (_load_latest_run(ctx) if run is None else _with_spending(ctx, run))
    if run is None:
        return _no_run_reply(ctx)
    lane, is_queued = run.mode.lane, run.status is RunStatus.QUEUED
    queue = await load_queue(ctx.queue.storage, lane) if is_queued else []
    wait = next((waiting.position for waiting in queue if waiting.run.id == run.id), None)
    at_work = run.status is not RunStatus.QUEUED and not run.status.final
    progress = await ctx.queue.storage.progress.load(run.id) if at_work else None
    return replies.run_status(run, wait, progress and replace(progress, at=now()))


async def explain(ctx: CommandContext) -> str:
    run = await _load_latest_run(ctx)
    if run is None:
        return _no_run_reply(ctx)
    solved = await ctx.queue.storage.checkpoints(run.id).load(OUTCOME_KEY, SolveResult)
    result = solved.result if solved else None
    return replies.run_explanation(run, result, await list_edits(ctx))


async def show_config(ctx: CommandContext) -> str:
    if "propose" in (word.casefold() for word in ctx.request.command.words):
        return await propose_config(ctx)
    found = ctx.loaded_config
    return (
        replies.invalid_config(found) if isinstance(found, LayerProblem) else render_config(found)
    )


async def show_help(ctx: CommandContext) -> str:
    rows = [(f"{name} {verb.words}".strip(), verb.summary) for name, verb in VERBS.items()]
    settings = ctx.settings
    return replies.help_text(settings.app_name, ctx.repo.identity.slug, rows, settings.label)


async def _load_latest_run(ctx: CommandContext) -> Run | None:
    request, runs = ctx.request, ctx.queue.runs
    issue = request.issue
    if request.location is not CommentLocation.ISSUE:
        # Nothing else is kept of a pull request that is over.
        opened = await ctx.queue.storage.pulls.get(request.repo, issue) or await _find_source(ctx)
        if opened is None:
            return None
        issue = opened.issue
    run = await runs.get_latest(request.repo, issue)
    return None if run is None else await _with_spending(ctx, run)


def _no_run_reply(ctx: CommandContext) -> str:
    if ctx.request.location is not CommentLocation.ISSUE:
        return Reply.FOREIGN_PULL
    return Reply.NO_RUN.format(name=ctx.settings.app_name)


async def _with_spending(ctx: CommandContext, run: Run) -> Run:
    if run.candidate:
        return run
    ledger = await ctx.queue.storage.checkpoints(run.id).load(LEDGER_KEY, Ledger)
    return replace(run, dollars=max(run.dollars, ledger.dollars if ledger else 0.0))


EVERYWHERE: Final = frozenset(CommentLocation)

VERBS: Final[Mapping[str, Verb]] = {
    "fix": Verb(
        "Fix this issue. On one of my pull requests: do what this comment says.",
        fix,
        words="[anyway]",
        places=EVERYWHERE,
    ),
    "retry": Verb("Start again from the beginning.", start_command(Mode.FIX), words="[anyway]"),
    "plan": Verb(
        "Dry run: show where I would look, a reproduction test, and what a fix would cost.",
        start_command(Mode.PLAN),
    ),
    "judge": Verb(
        "Compare pull requests that others opened for this issue. I push nothing.",
        judge,
        words="#12 #34",
    ),
    "use": Verb(
        "Put another of my edits into my pull request: A is the one I chose.",
        use,
        words="B [anyway]",
        places=EVERYWHERE,
    ),
    "more": Verb(
        "Continue a finished run: draw further samples beside those that it has.",
        draw_more,
        words="[4]",
        places=EVERYWHERE,
    ),
    "budget": Verb(
        "Raise the ceiling of the run under way, in US dollars, up to the repository's for a day; "
        "where it has none, up to twice.",
        raise_budget,
        words="15",
    ),
    "stop": Verb("Stop working on this now.", stop, places=EVERYWHERE),
    "status": Verb("Show what I am doing.", show_status, places=EVERYWHERE),
    "explain": Verb("Explain why the latest run ended as it did.", explain, places=EVERYWHERE),
    "stats": Verb(
        "Show the results of my work in this repository: merged, closed, reverted, and the cost.",
        show_stats,
        words="[days]",
        places=EVERYWHERE,
    ),
    "config": Verb(
        "Show the settings in force here. `propose`: open a pull request with a settings file.",
        show_config,
        words="[propose]",
        places=EVERYWHERE,
    ),
    "help": Verb("Show this list.", show_help, places=EVERYWHERE),
}
