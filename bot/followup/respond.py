"""What reviewers see: that they are heard, and what was done about each thing that they said."""

from __future__ import annotations

from contextlib import suppress

from bot.comments import followup
from bot.followup.context import Care
from bot.followup.feedback import Batch, Said
from bot.github.errors import Forbidden, NotFound
from pipeline.workflows.revise import Revised


async def seen(care: Care, batch: Batch) -> None:
    """Show on each line's comment that it is heard; in the conversation commands show it."""
    for said in batch.said:
        if said.comment is not None:
            with suppress(Forbidden, NotFound):
                mine = care.repo.pulls.reactions(said.comment, care.repo.issues.is_own)
                await care.lease.require()
                await mine.add("eyes")


async def answered(care: Care, batch: Batch, revised: Revised, sha: str) -> None:
    """Each line's comment in its thread, with what was done about it; all others in one comment."""
    here = sha[:7] if sha and not care.record.handed_over else ""
    lost = bool(sha) and not here
    left_out = followup.left_out(batch.strangers)
    told = [(place, said) for place, said in enumerate(batch.said)]
    threads = [(place, said) for place, said in told if said.thread is not None]
    others = [(place, said) for place, said in told if said.thread is None]

    def text(about: list[tuple[int, Said]], more: str) -> str:
        markers = [followup.answer_marker(said.id) for _, said in about]
        if lost or not revised.answer:
            name = care.settings.app_name
            body = followup.not_managed(markers, name, revised.spent == "run")
        else:
            said = [(said.by, revised.to(place)) for place, said in about]
            body = followup.answered(said, here, markers)
        return f"{body}\n{more}\n" if more else body

    for nth, one in enumerate(threads):
        said = one[1]
        assert said.thread is not None
        more = left_out if nth == 0 and not others else ""
        await care.lease.require()
        await care.repo.pulls.reply_once(
            care.pull.number, said.thread, followup.answer_marker(said.id), text([one], more),
            care.repo.issues.is_own,
        )  # fmt: skip
    if others:
        await care.say_once(followup.answer_marker(others[0][1].id), text(others, left_out))
