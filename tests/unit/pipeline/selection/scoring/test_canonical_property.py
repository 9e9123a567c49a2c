"""Different edits never share a key: generated files, reference patches."""

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.selection.scoring.canonical import normalise
from tests.support.data.diffs import diff_of
from tests.support.data.public_edits import ENSEMBLE, change_a_name, read_hunks, write_hunk

_PIECES = (
    '    """A text.\n\n    In parts, total = 3.\n    """\n',
    "    '''Another.'''\n",
    '    query = """\n    select 1\n    """\n',
    '    print(\n        "a 1"\n        "b 2"\n        "c 3"\n        "d 4"\n    )\n',
    "    total = 1\n",
    "    # the rest\n",
    "    if total > 2:\n        total = f(total, 7)\n",
    "    return total\n",
    "\n",
)
_BODIES = st.lists(
    st.lists(st.sampled_from(_PIECES), min_size=1, max_size=5).map("".join), min_size=2, max_size=5
)


class _WithoutTexts(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        value = node.value
        return None if isinstance(value, ast.Constant) and isinstance(value.value, str) else node


def _read_meaning(text: str) -> str:
    """The code of `text`, without what its docstrings say."""
    return ast.dump(_WithoutTexts().visit(ast.parse(text)))


@settings(max_examples=400, deadline=None)
@given(_BODIES, st.data())
def test_edits_that_mean_something_else_never_share_a_key(
    bodies: list[str], data: st.DataObject
) -> None:
    base = "".join(f"def f{n}(total):\n{body}    pass\n\n" for n, body in enumerate(bodies))
    places = [match.span() for match in re.finditer(r"\b\d\b", base)]
    if not places:
        return
    afters: list[str] = []
    for value in "89":
        start, end = data.draw(st.sampled_from(places))
        afters.append(base[:start] + value + base[end:])
    if _read_meaning(afters[0]) == _read_meaning(afters[1]):
        return
    diffs = [diff_of(base, after, context=data.draw(st.integers(0, 4))) for after in afters]
    assert len({normalise(diff).key for diff in diffs}) == 2
    assert len({normalise(diff, base=lambda _: base).key for diff in diffs}) == 2


def test_a_hunk_that_ends_in_an_opened_docstring_is_not_empty() -> None:
    before = 'w = 4\n\ndef f():\n    """\n    Text.\n\n    More.\n    """\n    return 1\n'
    keys = {normalise(diff_of(before, before.replace("4", value), context=3)).key for value in "56"}
    assert len(keys) == 2
    assert not normalise(diff_of(before, before.replace("4", "5"), context=3)).empty


def test_names_that_may_belong_to_the_code_around_a_hunk_are_kept() -> None:
    lines = "".join(f"        step({n})\n" for n in range(12))
    before = f"class A:\n    def f(self, rows, tax):\n{lines}        return rows, tax\n"
    at = "        step(6)\n"
    keys = {
        normalise(diff_of(before, before.replace(at, f"{at}        {name} = list({name})\n"))).key
        for name in ("rows", "tax")
    }
    assert len(keys) == 2


@pytest.mark.skipif(not ENSEMBLE.exists(), reason="the public edits are not beside this repository")
def test_no_hunk_of_a_reference_patch_shares_its_key_with_another_edit() -> None:
    shared = [
        (instance, hunk.start)
        for instance, file, hunk in read_hunks()
        for other in change_a_name(hunk)
        if normalise(write_hunk(file, hunk)).key == normalise(write_hunk(file, other)).key
    ]
    assert shared == []
