"""Numbers in sentences."""

import pytest

from prompts.text import agree, pluralize


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 tests pass"), (1, "1 test passes"), (2, "2 tests pass"), (1200, "1,200 tests pass")],
)
def test_nouns_and_verbs_agree_with_their_number(number: int, said: str) -> None:
    assert f"{pluralize(number, 'test')} {agree(number, 'passes', 'pass')}" == said
