"""Sentences for the maintainer: why no fix, less evidence, blocked hosts.

The sandbox has no network to observe. The only evidence is the messages of programs that could not
resolve a name or reach an address. A test can print anything: these are hints.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from itertools import chain
from typing import Final

from pipeline.data.suite_reports import SKIPPED, CutShort, SuiteReport, SuiteRun
from pipeline.data.types import NoFix, NoFixReason, Selection
from pipeline.run_errors import BudgetSpent, Ceiling, TimeSpent
from prompts.text import agree, pluralize
from sandbox.frozen import Frozen

_CEILINGS: dict[Ceiling, str] = {
    "run": "The limit for one run",
    "repository": "Today's limit for this repository (reset at 00:00 UTC)",
    "installation": "The operator's limit for today (reset at 00:00 UTC)",
}


def budget_sentence(spent: BudgetSpent) -> str:
    if isinstance(spent, TimeSpent):
        return str(spent)
    return f"{_CEILINGS[spent.of]} was reached: {spent}"


def explain_spent(spent: BudgetSpent) -> NoFix:
    """The result of a run that reached a ceiling without an edit."""
    return NoFix(reason=reason_of(spent.of), details=(budget_sentence(spent),))


def reason_of(ceiling: Ceiling | None) -> NoFixReason:
    """Why a run that reached `ceiling` proposes nothing."""
    return "out of time" if ceiling == "time" else "out of budget"


def count_near(report: SuiteReport) -> str:
    """The counts of a comparison of the tests near an edit, or of all, as sentences."""
    count, broken = len(report.before.passed), len(report.broken)
    mended = len(set(report.before.failed) & set(report.after.passed))
    verb = agree(count, "passes", "pass")
    where = "the repository near the edit" if report.is_near else "the repository"
    text = f"{pluralize(count, 'test')} of {where} {verb} without it; with it "
    text += f"{broken:,} of them {agree(broken, 'does', 'do')} not." if broken else "none breaks."
    if mended:
        fails, passes = agree(mended, "fails", "fail"), agree(mended, "passes", "pass")
        text += f" {mended:,} that {fails} without it {passes} with it."
    return f"{text} {describe_failing(report, 'it')}".rstrip()


def describe_base(run: SuiteRun) -> str:
    """How many of the repository's tests pass without an edit, and whether a limit ended them."""
    passing = len(run.passed)
    text = f"{pluralize(passing, 'test')} of this repository {agree(passing, 'passes', 'pass')}"
    text += " without an edit"
    if failing := len(run.failed):
        text += f", {failing:,} {agree(failing, 'fails', 'fail')}"
    if skipped := len(run.skipped):
        text += f", {skipped:,} {agree(skipped, 'is', 'are')} {SKIPPED}"
    if run.cut:
        text += f"; then a time limit ended the run, after {_count_results(run.cut, 'test')}"
    return f"{text}."


def describe_failing(report: SuiteReport, change: str) -> str:
    """How many further tests fail without the `change`; empty if none does."""
    count = len(report.failing)
    if not count:
        return ""
    verb, was = agree(count, "fails", "fail"), agree(count, "was", "were")
    return f"{count:,} more {verb} without {change}, and {was} not run with it."


def describe_cut(report: SuiteReport) -> str:
    """What the tests that ran cannot tell: that none is known to be of a changed module, which runs
    a time limit ended, how far they got, and that there was no control; empty if nothing."""
    told = "None of these tests is known to use a changed module." if report.unreached else ""
    unseen = (
        "None of these tests could be made to fail on purpose, so results that the edit fakes "
        "would not be noticed."
    )
    return " ".join(filter(None, (told, _describe_limits(report), unseen * report.uncontrolled)))


def _describe_limits(report: SuiteReport) -> str:
    before, after = report.before.cut, report.after.cut
    # Without an edit, all tests run where they are counted.
    first = "test" if report.whole else "selected test"
    if before and after:
        return (
            f"A time limit ended both runs: {_count_results(before, first)} ran without the edit"
            f"{_count_skipped(before)}; {_count_results(after, 'selected test')} with it"
            f"{_count_skipped(after)}."
        )
    if after:
        counts = f"{_count_results(after, 'selected test')} ran{_count_skipped(after)}"
        return f"A time limit ended the run with the edit: {counts}."
    if before:
        whole = f"the {before.selected:,} {first}s" if before.selected else f"all {first}s"
        return f"There was no time to run the rest of {whole}."
    return ""


def _count_results(cut: CutShort, noun: str) -> str:
    if cut.selected:
        return f"{cut.ran:,} of {pluralize(cut.selected, noun)}"
    return pluralize(cut.ran, "test") if cut.ran else "no test"


def _count_skipped(cut: CutShort) -> str:
    return f", {cut.skipped:,} of them {SKIPPED}" if cut.skipped else ""


MOST_HOSTS: Final = 10

_NAME = r"([A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?)\.?(?![A-Za-z0-9_.-])"
_HOST = rf"(?:{_NAME}|\[?([0-9A-Fa-f:.]{{3,45}})\]?)"
_MESSAGES_WITH_HOST: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"Could not resolve host: {_NAME}",  # curl, git
        rf"Could not resolve hostname {_NAME}",  # ssh
        rf"Failed to resolve '{_NAME}'",  # urllib3, and so pip and requests
        rf"getaddrinfo (?:EAI_AGAIN|ENOTFOUND) {_NAME}",  # Node
        rf"unable to resolve host address ['\"‘`]{_NAME}",  # wget
        rf"could not translate host name \"{_NAME}\"",  # libpq
        rf"host='{_HOST}', port=\d{{1,5}}\): Max retries exceeded",  # urllib3
        rf"Cannot connect to host {_NAME}:\d{{1,5}}\b",  # aiohttp
        rf"Failed to connect to {_HOST} port \d{{1,5}}\b",  # curl
        r"connect (?:ENETUNREACH|EHOSTUNREACH) (\d{1,3}(?:\.\d{1,3}){3}):",  # Node
    )
)
_MESSAGES_WITHOUT_HOST: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|No address associated with hostname|\bEAI_AGAIN\b|\bENETUNREACH\b"
)


class BlockedHosts(Frozen):
    """The hosts in the output of some executions. Untrusted."""

    hosts: tuple[str, ...] = ()
    """Names and addresses, at most `MOST_HOSTS`, in order."""
    more: int = 0
    """How many more hosts there were."""
    nameless: bool = False
    """No host is named, but a message reports an unreachable one."""


def find_blocked_hosts(outputs: Iterable[str]) -> BlockedHosts:
    """Find the hosts outside the sandbox that `outputs` mention."""
    hosts: dict[str, None] = {}
    nameless = False
    for output in dict.fromkeys(outputs):
        for match in chain.from_iterable(p.finditer(output) for p in _MESSAGES_WITH_HOST):
            host = next(filter(None, match.groups()), "").casefold().rstrip(".")
            if _is_external(host):
                hosts[host] = None
        nameless = nameless or _MESSAGES_WITHOUT_HOST.search(output) is not None
    ordered = sorted(hosts)
    return BlockedHosts(
        hosts=tuple(ordered[:MOST_HOSTS]),
        more=max(0, len(ordered) - MOST_HOSTS),
        nameless=nameless and not ordered,
    )


def find_blocked_in_selection(selection: Selection) -> BlockedHosts:
    """Find the hosts in a selection's tests: those written for it, and the repository's own."""
    proof = selection.evidence
    runs = [proof.reproduction.before, proof.reproduction.after]
    runs += [*proof.votes.base, *chain.from_iterable(proof.votes.runs)]
    # Tests that the network alone fails are told apart, and counted by themselves.
    if proof.suite is not None and not proof.suite.after.offline:
        runs += [proof.suite.before.execution, proof.suite.after.execution]
    return find_blocked_hosts(run.output for run in runs)


def _is_external(host: str) -> bool:
    """Whether the host is outside the sandbox: the loopback, with a test's own servers, is
    inside."""
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return ":" not in host
    return not (address.is_loopback or address.is_unspecified)
