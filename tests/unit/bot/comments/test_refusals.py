"""Refusals that are posted once a day for each person."""

from bot.comments import refusals
from bot.data.refusal import Stranger
from bot.data.run import Login


def test_a_refusal_thanks_and_can_be_found_again() -> None:
    said = refusals.refusal_reply(Login("mallory"), Stranger(("write",)))
    assert said.startswith("Thank you, @mallory.")
    assert refusals.refusal_marker(Login("mallory")) in said


def test_a_marker_cannot_be_closed_by_a_login() -> None:
    assert refusals.refusal_marker(Login("a-->b")) == "<!-- capuchin:refused login=a--b -->"
