"""An issue's pictures become text, once, for every later step."""

from pipeline.data.types import Picture, Selection
from pipeline.models.base import ModelMisconfigured
from sandbox.frozen import replace
from tests.support.data.solver_shop import APPROVE, GOOD_EDIT, ISSUE, Shop, simple
from tests.support.fakes import ScriptedModel

DOT = Picture(media_type="image/png", base64="iVBORw0KGgo=")
SHOWN = replace(ISSUE, body=f"{ISSUE.body}\n\n[image]", pictures=(DOT,))
SAYS = "It shows: KeyError: 'clay'"


async def test_what_a_picture_shows_reaches_those_who_write_tests(shop: Shop) -> None:
    model = ScriptedModel({**simple(GOOD_EDIT, APPROVE), "pictures/0": [SAYS]}, vision=True)
    solver = shop.solver(model, samples=1)
    assert isinstance(await solver.solve(SHOWN), Selection)
    assert model.conversations["pictures/0"][0].pictures == (DOT,)
    assert SAYS in model.conversations["testing/0"][0].text
    others = [said for call, said in model.conversations.items() if call != "pictures/0"]
    assert not any(message.pictures for said in others for message in said)


async def test_a_model_that_sees_nothing_is_not_asked(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    assert isinstance(await shop.solver(model, samples=1).solve(SHOWN), Selection)


async def test_a_service_that_takes_no_pictures_ends_no_run(shop: Shop) -> None:
    refusal = ModelMisconfigured("No pictures, please.")
    model = ScriptedModel({**simple(GOOD_EDIT, APPROVE), "pictures/0": [refusal]}, vision=True)
    assert isinstance(await shop.solver(model, samples=1).solve(SHOWN), Selection)
