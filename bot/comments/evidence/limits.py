"""What the evidence for an edit does not show, and what its writer lacked."""

from __future__ import annotations

from bot.markdown import code, prose
from pipeline.codebase.text import pluralize
from pipeline.edits.suspicious import find_suspicious
from pipeline.edits.unified_diff import list_paths
from pipeline.types import Selection
from pipeline.workflows.blocked_hosts import BlockedHosts, find_blocked_in_selection


def render_limits(selection: Selection) -> str:
    """A list; the files, hosts and reasons that it names are made inert."""
    text = ["A passing test shows that the reported case is fixed, not that nothing else changed."]
    if not selection.candidate.source:
        text[0] += " The same kind of model wrote the test and the edit."
    if selection.evidence.cut_short:
        text.append(selection.evidence.cut_short)
    for words in find_suspicious(selection.candidate.patch.diff):
        text.append(f"The edit {prose(words, 300)}")
    if selection.evidence.suite is None:
        text.append("I ran none of the repository's own tests.")
    text += [
        _otherwise_sentence(selection),
        _unseen_sentence(selection),
        _changelog_sentence(selection),
        _network_sentence(find_blocked_in_selection(selection)),
    ]
    return "\n".join(f"- {sentence}" for sentence in filter(None, text))


def _otherwise_sentence(selection: Selection) -> str:
    """That tests which fail anyway fail otherwise with the edit; empty if none does."""
    suite = selection.evidence.suite
    found = suite.failed_otherwise if suite else ()
    if not found:
        return ""
    if len(found) == 1:
        [(test, before, after)] = found
        which, it = code(test, 300), "it"
        fail = f"fails without the edit ({code(before)}) and with it ({code(after)})"
    else:
        which, it = f"{len(found):,} tests", "them"
        fail = "fail without the edit and with it"
    see = f"See whether the edit makes {it} out of date."
    return f"{which} {fail}, but not with the same error. {see}"


def _unseen_sentence(selection: Selection) -> str:
    """The files that the writer of the edit was not shown for lack of room; empty if there are
    none, or if it is not one of our own machines."""
    unseen, candidate = selection.evidence.context.without_room, selection.candidate
    if not unseen or candidate.source:
        return ""
    files = f"{pluralize(len(unseen), 'file')} that may be relevant, for lack of room"
    if candidate.machine == "explore":
        return (
            f"The model that wrote the edit was not given {files}. It ran "
            "commands in the repository, by which it could read them and any other."
        )
    return f"The model that wrote the edit did not see {files}."


def _changelog_sentence(selection: Selection) -> str:
    """That the changelog lacks an entry, if its writer was told to write none; else empty."""
    folder, candidate = selection.evidence.context.numbered_entries, selection.candidate
    paths = list_paths(candidate.patch.diff)
    if not folder or candidate.source or any(path.startswith(f"{folder}/") for path in paths):
        return ""
    return (
        f"The changelog lacks an entry: those in {code(folder)} are named by issue number, and "
        "this issue's number is not known."
    )


def _network_sentence(found: BlockedHosts) -> str:
    """The hosts that tests tried to reach, according to their output; empty if there are none."""
    no_network = "the sandbox has no network. I cannot tell whether this affects their results."
    if found.hosts:
        named = ", ".join(code(host, 100) for host in found.hosts)
        more = f" and {found.more} more" if found.more else ""
        return f"According to their output, the tests could not reach {named}{more}: {no_network}"
    if found.nameless:
        return (
            "According to their output, the tests could not reach a host that the output does not "
            f"name: {no_network}"
        )
    return ""
