import pytest

from pipeline.data.code_places import Context, SourceFile
from pipeline.data.options import Generator, Options
from pipeline.models.spec import ModelSpec, look_up
from pipeline.workflows.plan import estimate_cost, price_range, samples_sentence

CONTEXT = Context(files=(SourceFile(path="a.py", text="x", tokens=59_000),))
SONNET = look_up(ModelSpec(provider="anthropic", name="claude-sonnet-4-6")).profile
LOCAL = look_up(ModelSpec(provider="openai", name="qwen", base_url="http://127.0.0.1/v1")).profile


def test_the_context_is_written_once_and_read_by_all_other_questions() -> None:
    one = estimate_cost(CONTEXT, SONNET, Options(samples=1, attempts=1))
    ten = estimate_cost(CONTEXT, SONNET, Options(samples=10, attempts=1))
    assert one.usage.cache_write == 60_000 + 2 * 1500
    assert ten.usage.cache_write == 60_000 + 10 * 2 * 1500
    assert ten.usage.cache_read == 9 * 60_000 + 10 * 1000
    assert ten.usage.output == 10 * 2 * 1500


def test_the_most_is_every_attempt_of_every_sample() -> None:
    usual = estimate_cost(CONTEXT, SONNET, Options())
    assert usual.most == estimate_cost(CONTEXT, SONNET, Options(attempts=8)).most
    assert usual.most > usual.dollars > 0
    short = estimate_cost(CONTEXT, SONNET, Options(attempts=2))
    assert short.most == pytest.approx(short.dollars)


def test_a_default_run_is_guessed_at_a_few_dollars() -> None:
    """CodeMonkeys paid about $2300 for 500 issues, its Table 1."""
    estimate = estimate_cost(CONTEXT, SONNET, Options())
    assert 1 < estimate.dollars < 5
    assert 0 < estimate.least < estimate.dollars / 2


def test_the_price_that_is_told_in_advance_is_a_range_that_holds_what_such_runs_cost() -> None:
    """Seen in runs of three samples whose model was played by hand: 0.23 to 0.48 dollars, most of
    it for samples; 2.36 to 2.58 dollars had been announced."""
    options = Options(samples=3, generators=(Generator(machine="explore"), Generator()))
    files = (SourceFile(path="a.py", text="x", tokens=25_000),)
    estimate = estimate_cost(Context(files=files), SONNET, options)
    assert 0.2 < estimate.least < 0.5 < estimate.dollars < 1.5
    said = samples_sentence(estimate, options)
    assert price_range(estimate.least, estimate.dollars) in said


def test_a_model_of_ones_own_is_free() -> None:
    assert estimate_cost(CONTEXT, LOCAL, Options()).dollars == 0


def test_an_exploring_machine_takes_more_replies_than_a_fixed_one() -> None:
    explorers = Options(generators=(Generator(machine="explore"),), dollars=1000)
    fixed, explored = (
        estimate_cost(CONTEXT, SONNET, options) for options in (Options(), explorers)
    )
    assert explored.usage.output > 1.5 * fixed.usage.output
    assert fixed.dollars < explored.dollars < explored.most


def test_what_nobody_measured_is_said_and_no_run_costs_more_than_its_ceiling() -> None:
    explorers = Options(generators=(Generator(machine="explore"),), dollars=3)
    estimate = estimate_cost(CONTEXT, SONNET, explorers)
    assert estimate.most == 3
    said = samples_sentence(estimate, explorers)
    assert "$3.00" in said
    assert "8 replies" in said
    assert "replies" not in samples_sentence(estimate_cost(CONTEXT, SONNET, Options()), Options())
