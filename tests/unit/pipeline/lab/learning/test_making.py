"""Functions that a model writes anew."""

import pytest

from pipeline.lab.learning.making import Function, cut_body, put_body

TEXT = '''\
class Till:
    @property
    def total(self):
        """The sum.

        In cents."""
        found = 0
        return found

    def one(self): return 1
'''
TOTAL = Function("a.py", 2, 8, frozenset())


def test_a_function_is_cut_and_keeps_its_docstring() -> None:
    cut = cut_body("a.py", TEXT, TOTAL)
    assert cut is not None
    assert "found" not in cut.text
    assert "In cents" in cut.text
    assert "def one" in cut.text
    assert cut_body("a.py", TEXT, Function("a.py", 10, 10, frozenset())) is None


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        ("def total(self):\n    return 2", "    def total(self):\n        return 2\n\n    def one"),
        (
            "@property\ndef total(self):\n    return 2",
            "@property\n    def total(self):\n        re",
        ),
        ("    def total(self):\n        return 2", "    def total(self):\n        return 2\n\n"),
        ("def total(self, more):\n    return 2", ""),
        ("return 2", ""),
        ("\n".join(TEXT.split("\n")[1:8]), ""),
    ],
)
def test_an_answer_takes_the_place_of_the_function(answer: str, holds: str) -> None:
    cut = cut_body("a.py", TEXT, TOTAL)
    assert cut is not None
    new = put_body("a.py", TEXT, cut, answer)
    assert holds in new
    assert bool(new) == bool(holds)
