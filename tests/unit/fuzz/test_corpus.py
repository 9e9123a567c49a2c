"""Every kept input of `make fuzz` is parsed within its limits, without a fuzzer."""

import re
from itertools import islice

import pytest

from tests.fuzz.target import CORPUS, check, list_inputs, run_once
from tests.fuzz.targets import TARGETS


def test_every_target_has_inputs() -> None:
    folders = {path.name for path in CORPUS.iterdir() if path.is_dir()}
    assert folders == set(TARGETS)
    assert all(len(list_inputs(name)) >= 3 for name in TARGETS)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for name in TARGETS for path in list_inputs(name)]
    assert max(sizes) <= 16 * 1024
    assert sum(sizes) <= 256 * 1024


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_kept_input_is_parsed(name: str) -> None:
    for path in list_inputs(name):
        check(TARGETS[name], path.read_bytes())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_number_of_many_digits_is_parsed(name: str) -> None:
    """Python converts at most 4,300 digits: a version of more ended the run."""
    for path in list_inputs(name):
        data = path.read_bytes()
        for number in islice(re.finditer(rb"\d+", data), 60):
            changed = data[: number.start()] + b"9" * 5_000 + data[number.end() :]
            run_once(TARGETS[name], changed)


def make_broken_code() -> str:
    """A line that is no Python after many comments: tree-sitter needs half a minute."""
    same = [" def total(items):", *["     #um(items)"] * 16_000]
    end = "    return sum(i.price fo i in items)"
    head = "--- a/shop/price.py\n+++ b/shop/price.py\n@@ -1,16002 +1,16002 @@"
    return "\n".join([head, *same, f"-{end}", f"+{end}  # x\n"])


def make_collection() -> str:
    """Every printed module was compared with every file of its name."""
    paths = "".join(f"a{i}/__init__.py\n" for i in range(4900))
    return f"{paths}@@@@\n<Package x>\n" + "  <Module __init__.py>\n" * 40_000


# Too long for the corpus. Each with the seconds of processor time that it took once.
LONG_INPUTS = {
    "diff": make_broken_code,  # 28
    "health": make_collection,  # 100
    "issue": lambda: "<div><ul><li>x" * 2600,  # 2.6: the text grew without end
    "manifests": lambda: "--- tox.ini\n[testenv]\ndeps = x\n" + ("\1" * 12 + "\n") * 19_000,  # 4
    "reply": lambda: "<setup>pip\nmake</setup>\n" * 10_900,  # 25
}


@pytest.mark.parametrize("name", LONG_INPUTS)
def test_a_long_input_takes_no_quadratic_time(name: str) -> None:
    check(TARGETS[name], LONG_INPUTS[name]().encode())


def test_code_of_open_brackets_takes_no_quadratic_time() -> None:
    """The parser's queries looked at each of them for each: 29 s for 200 KB."""
    line = "(" * 200_000
    diff = f"--- a/shop/price.py\n+++ b/shop/price.py\n@@ -1 +1 @@\n-a\n+{line}\n"
    check(TARGETS["diff"], diff.encode())


def test_a_reply_of_braces_takes_no_quadratic_time() -> None:
    """Each was tried as the beginning of a document: 15 s."""
    check(TARGETS["reply"], b"{" * TARGETS["reply"].largest)
