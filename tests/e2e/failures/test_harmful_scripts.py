"""Scripts of a model that do harm: each ends by name, and none costs the others their run."""

from functools import partial
from typing import Final

import pytest

from bot.data.run import RunStatus
from bot.repo_config import model
from capuchin_demo.recorded.recording import RecordedAnswer
from pipeline.generation.scripts import TestingState
from sandbox.program import Ending
from tests.e2e import shop
from tests.e2e.harness import StartBot
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

SECONDS: Final = 4
"""For one script: what never ends takes so long."""
FORKS: str = TEXTS["FORKS"]
ENDLESS: str = TEXTS["ENDLESS"]
FILLS: str = TEXTS["FILLS"]
PRINTS = "import os\nline = b'x' * (1 << 20)\nfor _ in range(1024):\n    os.write(1, line)"
NOT_UTF_8: str = TEXTS["NOT_UTF_8"]
SCRIPTS: Final = {
    "forks": (FORKS, Ending.TIMEOUT, "It did not end and was killed after"),
    "never ends": (ENDLESS, Ending.TIMEOUT, "it waits for something"),
    # Files count as memory: which of the two walls stands nearer is the operator's.
    "fills the disk": (FILLS, Ending.MEMORY, "It was killed because it used too much memory"),
    "prints 1 GB": (PRINTS, Ending.OUTPUT, "It was killed because it printed too much"),
    "prints invalid UTF-8": (NOT_UTF_8, Ending.EXIT, "total is \ufffd\ufffd\ufffd -1"),
}


async def test_scripts_that_do_harm(
    start_recorded_bot: StartBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sample each; the last one's script is sound, and its fix becomes the pull request."""
    monkeypatch.setattr(model, "Options", partial(model.Options, execution_seconds=SECONDS))
    written = (
        RecordedAnswer(call=f"testing/{number}", turn=0, reply=f"<script>\n{script}\n</script>")
        for number, (script, _, _) in enumerate(SCRIPTS.values())
    )
    no_better = RecordedAnswer(call="testing", reply="I cannot do better.")
    fix = RecordedAnswer(call=f"editing/{len(SCRIPTS) - 1}", turn=0, reply=shop.RIGHT)
    others = RecordedAnswer(call="editing", reply="With such a script I cannot tell.")
    recording = shop.answers(*written, no_better, fix, others)
    async with start_recorded_bot(recording, sandbox_memory_mb=256) as bot:
        repo = bot.add_repo(
            files={**shop.FILES, ".github/capuchin.yml": f"samples: {len(SCRIPTS)}"}
        )
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        store = bot.store_of(run)
        for number, (name, (_, ending, told)) in enumerate(SCRIPTS.items()):
            test = await store.load(f"testing/{number}", TestingState)
            assert test is not None
            assert [one.ending for one in test.runs] == [ending], (name, test.runs)
            asked = next(
                q.last_user_message for q in bot.llm.requests if q.call == f"editing/{number}"
            )
            assert told in asked, (name, asked)
        assert run.status is RunStatus.OPENED_PULL_REQUEST, issue.comments[0].body
        branch, body = bot.only_pull_request(repo)
        assert "return a + b" in (repo.read_file(branch, "shop/till.py") or "")
        assert len(body.encode()) < 65_536
        assert (len(issue.comments), issue.labels) == (1, [])
