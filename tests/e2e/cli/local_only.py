"""`python -m tests.e2e.cli.local_only FOLDER`: a whole run with all its models at loopback.

Run it where loopback is the only network. Exits as `capuchin fix` does.
"""

import asyncio
import errno
import socket
import sys
from pathlib import Path

from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix

SAID = {"+": -0.1, "-": -2.4}
JUDGES = (
    RecordedAnswer(call="prm", reply="+", logprobs=SAID),
    RecordedAnswer(call="orm", reply="+", logprobs=SAID),
    RecordedAnswer(
        call="relevance", reply='{"thoughts": "x", "relevant": true, "summary": "Adds up."}'
    ),
)
OUTSIDE = ("192.0.2.1", 443)
"""An address for documentation (RFC 5737)."""


def check_alone() -> None:
    """Raises AssertionError where there is a route out."""
    with socket.socket() as probe:
        assert probe.connect_ex(OUTSIDE) == errno.ENETUNREACH, "there is a route out"


async def run(folder: Path) -> int:
    """Solve the shop's issue with a search; the exit code."""
    solver = RecordedServer(shop.answers(*shop.SEARCHING))
    judge = RecordedServer(Recording(version=1, note="Written by hand.", answers=JUDGES))
    async with solver.serve() as url, judge.serve() as judges:
        local = LocalFix(folder, solver, url)
        local.commit(shop.FILES)
        settings = replace(
            local.settings,
            scout_model=f"openai:scout@{judges}/v1",
            prm_model=f"openai:prm@{judges}/v1",
            orm_model=f"openai:orm@{judges}/v1",
        )
        return await local.fix("--strategy", "search", settings=settings)


if __name__ == "__main__":
    check_alone()
    sys.exit(asyncio.run(run(Path(sys.argv[1]))))
