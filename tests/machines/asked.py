"""A whole run over a real socket: what the service receives."""

from collections.abc import Mapping, Sequence
from typing import Any

from capuchin_demo.recorded.recording import ReceivedRequest
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import Options
from pipeline.data.types import Selection
from pipeline.solve import Solver
from pipeline.workflows.outcome import Models
from tests.contracts.models.clients import KEY, Kind, client, recording
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    GOOD_EDIT,
    GOOD_SCRIPT,
    ISSUE,
    LONGER_GOOD_EDIT,
    RANKING,
    SHARP_SCRIPT,
    TEST_FILE,
    WEAK_SCRIPT,
    Shop,
)

REASONS = "The test multiplies where the report adds. " * 200
"""About two thousand tokens before an answer."""
APPROVE = f"{REASONS}\n\n<approve/>"
DRAWN = "<approaches>\nMend shop/till.py.\nUse sum().\nAsk the callers.\n</approaches>"
RELEVANT = '{"thoughts": "x", "relevant": true, "summary": "Adds up."}'


def answers(*edits: str, tests: Mapping[int, str]) -> list[dict[str, Any]]:
    reasoned = [
        {"call": "relevance", "reply": f"{REASONS}\n\n{RELEVANT}"},
        {"call": "ranking", "reply": f"{REASONS}\n\n{RANKING}"},
        {"call": "approaches", "reply": f"{REASONS}\n\n{DRAWN}"},
        {"call": "selecting", "turn": 0, "reply": f"{REASONS}\n\n{SHARP_SCRIPT}"},
        {"call": "selecting", "reply": f"{REASONS}\n\n<choice>A</choice>"},
        {"call": "choosing", "reply": f"{REASONS}\n\n<choice>A</choice>"},
        {"call": "reproduction", "reply": TEST_FILE},
    ]
    for number, edit in enumerate(edits):
        script = tests.get(number, GOOD_SCRIPT)
        reasoned += [
            {"call": f"testing/{number}", "turn": 0, "reply": script},
            {"call": f"editing/{number}", "turn": 0, "reply": f"{REASONS}\n\n{edit}"},
        ]
    return [*reasoned, {"call": "testing", "reply": APPROVE}, {"call": "editing", "reply": APPROVE}]


async def received(
    shop: Shop, kind: Kind, edits: Sequence[str], **options: object
) -> dict[str, list[ReceivedRequest]]:
    """What the service receives in one run, by call."""
    said = answers(*edits, tests={1: WEAK_SCRIPT})
    server = RecordedServer(recording(*said), key=KEY)
    set_ = {"samples": len(edits), "rankings": 1, "informed": 0, **options}
    async with server.serve() as url:
        model = client(kind, url)
        solver = Solver(
            Models(solver=model, scout=model), shop.workspace(Options.model_validate(set_))
        )
        try:
            result = await solver.solve(ISSUE)
        finally:
            await model.aclose()
    assert isinstance(result, Selection), result
    calls: dict[str, list[ReceivedRequest]] = {}
    for request in server.requests:
        calls.setdefault(request.call, []).append(request)
    return calls


EDITS = (ABSOLUTE_EDIT, LONGER_GOOD_EDIT, GOOD_EDIT)
