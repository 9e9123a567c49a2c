"""Edits that must be refused, each with words that help the model."""

from collections.abc import Iterator

from tests.support.texts import texts_of
from tests.unit.pipeline.edits.corpus.files import TEXTS
from tests.unit.pipeline.edits.corpus.well_formed import Case, block

_ROWS = texts_of(__file__)
_GOOD = block("plain.py", "        result = 0\n", "        result = 1\n")
_LINES = _GOOD.splitlines(keepends=True)
_TEXT_OF = {
    path: data.decode("latin-1" if path == "old.py" else "utf-8") for path, data in TEXTS.items()
}


def broken_markers() -> Iterator[Case]:
    without = {0: "has no file", 1: "outside a block", 3: "no =======", 5: "not closed"}
    for at, said in without.items():
        body = "".join(line for n, line in enumerate(_LINES) if n != at)
        yield Case(f"a block without {_LINES[at].strip()!r}", body, said=said)
    for cut in range(2, 6):
        yield Case(f"cut off after line {cut}", "".join(_LINES[:cut]), said="not closed")
    swapped = {
        "<<<<<<< SEARCH": ["<<<< SEARCH", "<<<<<<< Search", "<<<<<<< SEARCH plain.py", "SEARCH"],
        "=======": ["======", "========", "= = =", "-------"],
        ">>>>>>> REPLACE": [">>>>>>> replace", ">>>>>>>", "REPLACE", ">>>>>>> REPLACE now"],
    }
    for right, wrongs in swapped.items():
        for wrong in wrongs:
            yield Case(
                f"{wrong!r} for {right!r}", _GOOD.replace(right, wrong, 1), said="Block|block"
            )
    for words in ("", "\n\n", "I would change total().", "plain.py", "```python\nx = 1\n```"):
        yield Case(f"no block: {words!r}", words, said="contains no block")


def unfound() -> Iterator[Case]:
    for path, text in _TEXT_OF.items():
        line = max(text.splitlines(), key=len)
        typo = line.replace("e", "", 1).rstrip()[:-1] + "?"
        if len(line) > 15:
            said = f"nearest there, from line {text.splitlines().index(line) + 1}"
            yield Case(
                f"{path}: a line with typing errors", block(path, f"{typo}\n", "x\n"), said=said
            )
        nothing = block(path, "@@@@ §§§§ @@@@ §§§§\n", "x\n")
        yield Case(f"{path}: nothing like it", nothing, said="nor anything like them")
        lines = [line for line in text.splitlines() if line.strip()]
        both = block(path, f"{lines[-1]}\n{lines[0]}\n", "x\n")
        yield Case(f"{path}: lines in the wrong order", both, said=f"not in {path}")
        new = block(path, "", "x\n")
        yield Case(f"{path}: created though it is there", new, said="exists and is not empty")
        same = block(path, f"{lines[0]}\n", f"{lines[0]}\n")
        yield Case(f"{path}: nothing changed", same, said="change nothing")
        late = block(path, f"{lines[0]}\n", "x\n") + "*** Begin Patch\n-y\n"
        yield Case(f"{path}: a patch after a block", late, said="stands outside a block")
    for path, said in _ROWS["NOWHERE"].items():
        yield Case(f"no file {path}", block(path, "x\n", "y\n"), said=said)
        yield Case(f"no file {path} to delete", f"{path}\n<<<<<<< DELETE\n", said=said)
        yield Case(f"no file {path} to rename", f"{path}\n<<<<<<< RENAME z.py\n", said=said)


def unclear() -> Iterator[Case]:
    for name, search in {
        "exactly": "    return 1\n",
        "with other white space": "    return 1   \n",
        "dedented": "return 1\n",
        "with blank lines around": "\n    return 1\n\n",
    }.items():
        yield Case(f"twice there, {name}", block("twins.py", search, "x\n"), said="at lines 2, 6")


def out_of_reach() -> Iterator[Case]:
    for path, said in _ROWS["PROTECTED"].items():
        yield Case(f"change {path}", block(path, "x\n", "y\n"), said=said)
        yield Case(f"create {path}", block(path, "", "y\n"), said=said)
        yield Case(f"delete {path}", f"{path}\n<<<<<<< DELETE\n", said=said)
        yield Case(f"rename {path}", f"{path}\n<<<<<<< RENAME new.py\n", said=said)
        yield Case(f"rename to {path}", f"empty.py\n<<<<<<< RENAME {path}\n", said=said)
    yield Case("a lone surrogate", block("s.txt", "", "\ud800\n"), said="cannot express")
    big = block("big.txt", "", "x" * 1_000_001 + "\n")
    yield Case("a file that is too large", big, said="larger than")


def malformed() -> list[Case]:
    written = [Case(name, body, said=said) for name, (body, said) in _ROWS["EDITS"].items()]
    return [*written, *broken_markers(), *unfound(), *unclear(), *out_of_reach()]
