"""Every kept input of `make fuzz` is parsed within its limits, without a fuzzer."""

from __future__ import annotations

import pytest

from tests.fuzz.one import INSTRUMENTED
from tests.fuzz.target import CORPUS, check, list_inputs
from tests.fuzz.targets import TARGETS


def test_every_target_has_inputs_and_modules_to_follow() -> None:
    folders = {path.name for path in CORPUS.iterdir() if path.is_dir()}
    assert folders == set(TARGETS) == set(INSTRUMENTED)
    assert all(len(list_inputs(name)) >= 3 for name in TARGETS)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for name in TARGETS for path in list_inputs(name)]
    assert max(sizes) <= 16 * 1024
    assert sum(sizes) <= 256 * 1024


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_kept_input_is_parsed(name: str) -> None:
    for path in list_inputs(name):
        check(TARGETS[name], path.read_bytes())
