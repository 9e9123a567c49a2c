"""What people say on the issue while a run works: heard by each step that begins later."""

from pipeline.data import progress
from pipeline.data.types import Issue
from pipeline.resources import Workspace
from sandbox.frozen import Frozen, replace


class Heard(Frozen):
    """What a step heard when it first began; saved under `heard/<step>`. Untrusted."""

    texts: tuple[str, ...]


async def hear(issue: Issue, step: str, workspace: Workspace) -> Issue:
    """`issue` with what people have said since the run read it. A resumed step hears the same."""
    if workspace.listen is None or "comments" in workspace.options.without:
        return issue
    heard = await workspace.store.load(f"heard/{step}", Heard)
    if heard is None and (texts := await workspace.listen()):
        heard = Heard(texts=tuple(text for text in texts if text not in issue.discussion))
        await workspace.store.save(f"heard/{step}", heard)
    if not heard or not heard.texts:
        return issue
    workspace.report(progress.CommentsHeard(len(heard.texts)))
    return replace(issue, discussion=(*issue.discussion, *heard.texts))
