import pytest

from pipeline.data.options import Options
from pipeline.workflows.plan import price_range, samples_sentence


def test_a_range_is_one_price_where_both_ends_are_the_same_in_cents() -> None:
    assert (price_range(0.2, 0.6), price_range(0.201, 0.204)) == ("$0.20–0.60", "$0.20")


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (Options(), "Drawing 4 to 10 samples"),
        (Options(adaptive=False), "Drawing 10 samples"),
        (Options(samples=1), "Writing"),
    ],
)
def test_how_many_samples_are_drawn_is_said(options: Options, begins: str) -> None:
    assert samples_sentence(options, 2).startswith(begins)
