"""Refusals that are posted once a day for each person."""

from bot.comments import refusals
from bot.data.run import Login


def test_a_marker_cannot_be_closed_by_a_login() -> None:
    assert refusals.refusal_marker(Login("a-->b")) == "<!-- capuchin:refused login=a--b -->"
