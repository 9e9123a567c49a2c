"""Shows everything from the signed webhook to the pull request."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files as resources

from bot.cli import FAILED
from bot.cli.display import Display, print_progress
from bot.cli.local_run import open_display
from bot.comments import failures
from bot.data.progress import Progress
from bot.data.run import RepoRef, Run, RunStatus
from bot.safe_text import printable
from bot.settings import Settings
from bot.storage.storage import Storage
from capuchin_demo.environment import (
    MAINTAINER,
    REPORTER,
    RUN_BUDGET,
    DemoEnvironment,
    run_environment,
)
from capuchin_demo.hub.issue_actions import add_labels, open_issue
from capuchin_demo.hub.state import Issue
from capuchin_demo.package import ISSUE_URL, LICENSE, DemoFailed
from pipeline.data.types import Account, NoFix, Selection, Usage
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.selection.verdict import name_edits, rank_edits
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult
from prompts.text import agree, pluralize
from sandbox.program import Execution
from sandbox.scratch import scratch_folder


def render_votes(chosen: Selection) -> str:
    """Rows are the unedited code and each edit, A first; a cell is the result of the script."""
    table, order = chosen.evidence.votes, chosen.evidence.order
    head = ["", *(f"script {t + 1}" for t in range(len(table.tests))), "passed"]
    rows = [head, ["unedited", *map(_cell, table.base), ""]]
    names = name_edits(table, order)
    for c in rank_edits(table, order):
        name = f"edit {names[c]}"
        if table.candidates[c].patch == chosen.candidate.patch:
            name += " (chosen)"
        rows.append([name, *map(_cell, table.runs[c]), str(table.votes(c))])
    return _align(rows)


def render_spending(accounts: Sequence[Account]) -> str:
    """One row for each stage and model, and the total."""
    rows = [["stage", "model", "calls", "input", "cache read", "cache write", "output", "dollars"]]
    total, calls, dollars = Usage(), 0, 0.0
    for account in accounts:
        rows.append(
            _spending_row(
                account.stage, account.model, account.calls, account.usage, account.dollars
            )
        )
        total, calls, dollars = (
            total + account.usage,
            calls + account.calls,
            dollars + account.dollars,
        )
    rows.append(_spending_row("total", "", calls, total, dollars))
    return _align(rows)


def _spending_row(stage: str, model: str, calls: int, usage: Usage, dollars: float) -> list[str]:
    tokens = (usage.input, usage.cache_read, usage.cache_write, usage.output)
    return [stage, model, str(calls), *map(str, tokens), f"{dollars:.4f}"]


def _cell(run: Execution) -> str:
    return f"exit {run.exit_code}" if run.exit_code is not None else run.ending.value


def _align(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)


def render_decision(chosen: Selection) -> str:
    """How the edit was chosen, and the results of the repository's tests and the new test."""
    by = {
        "only one": "the only edit",
        "votes": "most votes",
        "evidence": "most evidence",
        "support": "equal to most other edits",
        "reward model": "the reward model",
        "model": f"the selection machine, after "
        f"{pluralize(len(chosen.evidence.further), 'further script')}",
        "person": "a person chose it",
    }[chosen.decided_by]
    votes = chosen.evidence.votes
    names = name_edits(votes, chosen.evidence.order)
    lines = [
        f"Chosen: edit {names[votes.candidates.index(chosen.candidate)]} ({by}); "
        f"correct with a probability of {chosen.confidence:.0%}."
    ]
    if suite := chosen.evidence.suite:
        before = len(suite.before.passed)
        verb = agree(before, "passes", "pass")
        lines.append(
            f"The package's own tests: {before} {verb} without the edit, "
            f"{len(suite.passed_after)} with it; {len(suite.broken)} broken by it."
        )
    test = chosen.evidence.reproduction
    lines.append(
        f"{test.path}: exit {test.before.exit_code} without the edit, "
        f"exit {test.after.exit_code} with it."
    )
    return "\n".join(lines)


async def watch_run(env: DemoEnvironment, issue: Issue, show: Callable[[Progress], None]) -> Run:
    """Wait until the issue's run has ended; pass how far it has come to `show`."""
    repo = env.repo
    installation = repo.installation
    number = installation.id if installation else 0
    ref = RepoRef(id=repo.id, owner=repo.owner.login, name=repo.name, installation=number)
    async with _open_storage(env) as opened:
        storage = opened.waiting()  # this process does everything: Redis may seem silent
        while True:
            run = await storage.runs.get_latest(ref, issue.number)
            if run is not None:
                show(await storage.progress.load(run.id))
                if run.status.final:
                    return run
            await asyncio.sleep(0.1)


async def load_outcome(
    env: DemoEnvironment, run: Run
) -> tuple[SolveResult | None, tuple[Account, ...]]:
    """The pipeline's result, or None if it has none, and its spending."""
    async with _open_storage(env) as storage:
        store = storage.checkpoints(run.id)
        ledger = await store.load(LEDGER_KEY, Ledger)
        return await store.load(OUTCOME_KEY, SolveResult), ledger.accounts if ledger else ()


def _open_storage(env: DemoEnvironment) -> Storage:
    settings = env.settings
    return Storage.open(settings.redis_url, settings.redis_prefix, timeout=5)


async def show_demo(
    settings: Settings, package: Mapping[str, bytes], number: int, *, keep: bool, began: float
) -> int:
    """Fix the bug of `package` with the local GitHub on port `number` (0: any free one); return
    the exit code. With `keep`, stay until cancelled. `began` is when the demo did, by the monotonic
    clock.

    Raises:
        DemoFailed: it cannot continue.
        SandboxError, OSError: from what it starts.
    """
    with scratch_folder("demo") as folder:
        async with run_environment(folder, settings, package, number) as env:
            _introduce(env)
            with open_display() as display:
                run = await _label_issue(env, display)
                display.end(0 if run.status is RunStatus.OPENED_PULL_REQUEST else FAILED, {})
            code = await _conclude(env, run, began)
            _list_pages(env, run, keep=keep)
            if keep:
                await _stay_up()
            return code


def _introduce(env: DemoEnvironment) -> None:
    print_progress(f"Package: marshmallow 3.0.0, the source release from PyPI ({LICENSE}).")
    print_progress(f"Bug: originally reported as {ISSUE_URL}; we reworded the issue.")
    if env.recorded:
        print_progress(f"Model: {env.recorded.recording.note}\n"
             "Set ANTHROPIC_API_KEY to call the real service instead.")  # fmt: skip
    else:
        print_progress(f"Model: {env.settings.solver_model}, called live; this costs money.")


async def _label_issue(env: DemoEnvironment, display: Display) -> Run:
    text = (resources("capuchin_demo") / "issue.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    hub = env.hub
    issue = open_issue(hub, env.repo, title, body, hub.add_user(REPORTER))
    print_progress(f"Issue: {hub.url}/{issue.html_path}")
    print_progress(f"@{MAINTAINER} adds the label {env.settings.label!r} …")
    add_labels(hub, issue, [env.settings.label], hub.add_user(MAINTAINER))
    try:
        async with asyncio.timeout(1800):
            return await watch_run(env, issue, lambda progress: display.show(progress, RUN_BUDGET))
    except TimeoutError:
        raise DemoFailed(
            "The run did not finish within half an hour; something is stuck."
        ) from None


async def _conclude(env: DemoEnvironment, run: Run, began: float) -> int:
    outcome, accounts = await load_outcome(env, run)

    def out(text: str) -> None:
        sys.stdout.write(printable(text))

    match outcome and outcome.result:
        case Selection() as chosen:
            out("\nEdits × scripts (exit 0: the script passes; 2: the issue is still present)\n\n")
            out(render_votes(chosen) + "\n\n")
            out(render_decision(chosen) + "\n")
        case NoFix() as honest:
            out(f"\nNo fix: {failures.no_fix_reason(honest.reason)}\n")
        case None:
            out(f"\nThe run ended: {failures.failure_reason(run.failure, run.facts)}\n"
                if run.failure else f"\nThe run ended: {run.status.words}.\n")  # fmt: skip
    out(f"\n{render_spending(accounts)}\n\n")
    recorded = " for recorded answers; nothing was paid" if env.recorded else ""
    out(f"Cost at list prices: ${run.dollars:.4f}{recorded}.\n")
    out(f"Wall time: {time.monotonic() - began:.1f} s.\n")
    if run.status is RunStatus.OPENED_PULL_REQUEST:
        out(f"\nPull request: {run.pull_request_url}\n")
        return 0
    return FAILED


def _list_pages(env: DemoEnvironment, run: Run, *, keep: bool) -> None:
    """Name what the demo made; its pages live as long as the demo."""
    sys.stdout.flush()
    if not keep:
        print_progress(
            "\nThe pages end with the demo: start it with --keep to read them in a browser, and to "
            "comment, unlabel and review there."
        )
        return
    repository = f"{env.hub.url}/{env.repo.full_name}"
    print_progress(f"\nRepository:   {repository}")
    print_progress(f"Issue:        {repository}/issues/{run.issue}")
    if run.pull_request_url:
        print_progress(f"Pull request: {run.pull_request_url}, with its evidence, commits and diff")
    print_progress(f"Run:          {env.settings.page_url(run.id)}")
    token = env.settings.dashboard_token.get_secret_value()
    print_progress(f"All runs:     {env.settings.public_url}/runs (any name, password {token})")
    print_progress(
        f"\nOn these pages you are @{MAINTAINER}: comment (/capuchin explain, /capuchin use B), "
        "take the label off, review the pull request."
    )
    if env.recorded:
        print_progress(
            "The recording answers the review that the form offers; any other needs a live model."
        )
    print_progress("Press Ctrl-C to end the demo.")


async def _stay_up() -> None:
    """Wait until this task is cancelled, which ends the demo without a failure."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()  # or what closes the demo would be cancelled, too
