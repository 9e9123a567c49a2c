"""Whether an event asks for a run. Pure: who may ask is looked up by the run itself."""

from __future__ import annotations

from bot.events import Event, Ignored, IssueLabeled


def asks_for_run(event: Event, *, label: str) -> IssueLabeled | Ignored:
    """The event itself if a person put `label` on an issue; GitHub ignores case in labels."""
    if isinstance(event, Ignored):
        return event
    if event.label.casefold() != label.casefold():
        return Ignored(reason="another label")
    if event.by_bot:
        return Ignored(reason="a bot's label")
    return event
