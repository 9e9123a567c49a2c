"""A verdict of one token, + or -, and how sure a model is of it (SWE-Reasoner, section 2.2.2)."""

from __future__ import annotations

from pipeline.models.likelihood import Likelihood, ScoreUnavailable
from pipeline.models.wrappers.metered import Meter, run_metered

GOOD, BAD = "+", "-"
"""The verdict's tokens."""
_FLOOR = -20.0
"""The log-probability of a token that is not among the likeliest ones."""


async def ask_verdict(
    model: Likelihood, meter: Meter, system: str, question: str, *, call: str
) -> float:
    """The log-odds of `+` against `-` as the first token of the answer.

    The price is counted under the part of `call` before its slash.

    Raises:
        ModelError: the call failed.
        ScoreUnavailable: no log-probabilities, or the answer begins with neither.
        BudgetSpent: the ceiling is reached; nothing was sent.
    """
    chances = await run_metered(
        meter,
        model.profile,
        model.first_token(system, question, call=call),
        stage=call.partition("/")[0],
        texts=(system, question),
    )
    if GOOD not in chances and BAD not in chances:
        raise ScoreUnavailable(f"The reward model's verdict is neither {GOOD} nor {BAD}.")
    return chances.get(GOOD, _FLOOR) - chances.get(BAD, _FLOOR)
