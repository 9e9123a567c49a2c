"""Every role over a real socket: what the service receives, and how its answers are read."""

import pytest

from tests.contracts.models.clients import Kind
from tests.machines.asked import EDITS, received
from tests.support.data.solver_shop import GOOD_EDIT, Shop


async def test_every_turn_reasons_first_and_executions_count_for_more_than_reading(
    shop: Shop,
) -> None:
    asked = await received(shop, "openai", EDITS, selection="machine")
    testing = asked["testing/0"][1].last_user_message
    editing = asked["editing/0"][1].last_user_message
    write, review = (request.last_user_message for request in asked["selecting"])
    for turn in (testing, editing, write, review):
        assert "First talk through" in turn
    assert "oracle" in editing
    assert "oracle" in review
    assert "simpler" in review
    for call in ("testing/0", "editing/0", "selecting"):
        assert "Print much" in asked[call][0].system
        assert "the verdict last" in asked[call][0].system


async def test_who_chooses_by_reading_is_told_that_the_simpler_edit_wins(shop: Shop) -> None:
    asked = await received(shop, "openai", EDITS, selection="model")
    (question,) = asked["choosing"]
    assert "simpler" in question.last_user_message
    assert question.temperature == 0


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_choices_are_greedy_where_the_service_takes_a_temperature(
    shop: Shop, kind: Kind
) -> None:
    asked = await received(shop, kind, EDITS, selection="machine")
    greedy = {r.temperature for call in ("ranking/0", "selecting") for r in asked[call]}
    assert greedy == ({0.0} if kind == "openai" else {None})


async def test_approaches_are_drawn_with_the_code_in_view_and_what_all_edits_begin_with(
    shop: Shop,
) -> None:
    asked = await received(shop, "openai", EDITS)
    (drawing,) = asked["approaches"]
    first = asked["editing/0"][0]
    shared, _, _ = drawing.last_user_message.partition("Before anybody writes an edit")
    assert "result -= price" in shared
    assert first.last_user_message.startswith(shared.rstrip())
    assert drawing.system == first.system


async def test_one_sample_of_the_first_wave_and_one_of_the_second_are_plain(shop: Shop) -> None:
    edits = (*EDITS, GOOD_EDIT, GOOD_EDIT, GOOD_EDIT)
    asked = await received(shop, "openai", edits, adaptive=False, informed=1)
    plain = {
        number
        for number in range(6)
        if "<approach>" not in (text := asked[f"editing/{number}"][0].last_user_message)
        and "Others have tried" not in text
    }
    assert plain == {0, 4}
