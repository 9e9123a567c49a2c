"""Edits that must be refused, each with words that help the model."""

from collections.abc import Iterator

from tests.unit.pipeline.edits.corpus.files import TEXTS
from tests.unit.pipeline.edits.corpus.well_formed import Case, block

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
    yield Case("a second SEARCH", _GOOD.replace("=======", "<<<<<<< SEARCH"), said="not closed")
    yield Case("a second REPLACE", _GOOD + ">>>>>>> REPLACE\n", said="outside a block")
    yield Case("a divider between blocks", _GOOD + "=======\n" + _GOOD, said="outside a block")
    for words in ("", "\n\n", "I would change total().", "plain.py", "```python\nx = 1\n```"):
        yield Case(f"no block: {words!r}", words, said="contains no block")
    rest = "".join(_LINES[1:])
    yield Case("no path at all", rest, said="has no file")
    yield Case("only a fence before it", f"```python\n{rest}```\n", said="has no file")
    yield Case("prose for a path", f"Now the fix itself\n{rest}", said="no file Now the fix itself")
    creating = rest.replace("        result = 0\n", "")
    yield Case(
        "prose for the path of a new file", f"Now the new file:\n{creating}", said="not the path"
    )
    marked = block("markers.txt", "ours\n", "ours\n>>>>>>> REPLACE\nmine\n")
    yield Case("a marker among the new lines", marked, said="outside a block")
    inside = block("markers.txt", "<<<<<<< SEARCH\nours\n", "ours\n")
    yield Case("a marker among the sought lines", inside, said="not closed")
    yield Case("a rename to nothing", "plain.py\n<<<<<<< RENAME\n", said="no new path")
    yield Case("a rename of nothing", "<<<<<<< RENAME new.py\n", said="has no file")
    yield Case("a delete of nothing", "<<<<<<< DELETE\n", said="has no file")


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
    cut = block("plain.py", "    def total(self, pri\n", "x\n")
    yield Case("the beginning of a line", cut, said="SEARCH lines are whole lines")
    short = block("plain.py", "total(self, pri\n", "x\n")
    yield Case("a small part of a line", short, said="SEARCH lines are whole lines")
    wrong = block("plain.py", "def elsewhere(value):\n", "x\n")
    yield Case("lines of another file", wrong, said="they are in pkg/other.py")
    uneven = block("plain.py", "def total(self, prices):\nresult = 0\n", "x\n")
    yield Case("all indentation lost", uneven, said="not in plain.py")
    for path, said in {
        "plan.py": "Did you mean plain.py",
        "src/helper.py": "pkg/helper.py",
        "pkg/helpers.py": "Did you mean pkg/helper.py",
        "nothing/like/this.go": "no file nothing/like/this.go",
    }.items():
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
    blank = block("twins.py", "\n\n", "x = 1\n")
    yield Case("only blank lines sought", blank, said="exists and is not empty")
    first = block(
        "plain.py", "        result = 0\n        for price in prices:\n", "        pass\n"
    )
    over = block(
        "plain.py", "        for price in prices:\n            result -= price\n", "        x\n"
    )
    yield Case("overlapping blocks", first + over, said="earlier block")
    yield Case("the same block twice", _GOOD + _GOOD, said="earlier block")
    gone = "plain.py\n<<<<<<< DELETE\n" + _GOOD
    yield Case("changed after it was deleted", gone, said="no file plain.py")
    moved = "plain.py\n<<<<<<< RENAME new.py\n" + _GOOD
    yield Case("changed under the old path", moved, said="no file plain.py")
    yield Case(
        "deleted twice", "plain.py\n<<<<<<< DELETE\n<<<<<<< DELETE\n", said="no file plain.py"
    )
    back = block("plain.py", "        result = 1\n", "        result = 0\n")
    yield Case("changed and changed back", _GOOD + back, said="change nothing")
    there = "plain.py\n<<<<<<< RENAME pkg/helper.py\n"
    yield Case("renamed to a file that is there", there, said="exists already")
    itself = "plain.py\n<<<<<<< RENAME plain.py\n"
    yield Case("renamed to itself", itself, said="exists already")
    same = "plain.py\n<<<<<<< RENAME a.py\nempty.py\n<<<<<<< RENAME a.py\n"
    yield Case("two renamed to one", same, said="exists already")


def out_of_reach() -> Iterator[Case]:
    protected = {
        "../outside.py": "plain",
        "/etc/passwd": "relative",
        "~/x": "relative",
        ".git/config": "git's own",
        ".gitmodules": ".gitmodules",
        ".github/workflows/ci.yml": "workflow",
        ".github/workflows/new.yml": "workflow",
        "link.py": "symbolic link",
        "link.py/x": "symbolic link",
        "vendor/library": "submodule",
        "vendor/library/x.py": "submodule",
        "poetry.lock": "lock file",
        "deep/uv.lock": "lock file",
        "js/package-lock.json": "lock file",
        "js/Yarn.lock": "lock file",
        "secret/keys.txt": "settings forbid",
        "secret/new.txt": "settings forbid",
        "pkg": "is a folder",
        "plain.py/x": "cannot be in it",
    }
    for path, said in protected.items():
        yield Case(f"change {path}", block(path, "x\n", "y\n"), said=said)
        yield Case(f"create {path}", block(path, "", "y\n"), said=said)
        yield Case(f"delete {path}", f"{path}\n<<<<<<< DELETE\n", said=said)
        yield Case(f"rename {path}", f"{path}\n<<<<<<< RENAME new.py\n", said=said)
        yield Case(f"rename to {path}", f"empty.py\n<<<<<<< RENAME {path}\n", said=said)
    yield Case("a binary file", block("logo.png", "PNG\n", "x\n"), said="not a text file")
    moved = "logo.png\n<<<<<<< RENAME new.png\n" + block("new.png", "PNG\n", "x\n")
    yield Case("a renamed binary file", moved, said="not a text file")
    upper = block("PLAIN.py", "", "x\n")
    yield Case("a name that differs by case", upper, said="by case alone")
    foreign = block("old.py", "ZIP = 1\n", "ZIP = '→'\n")
    yield Case("letters that the file cannot hold", foreign, said="cannot express")
    yield Case("a lone surrogate", block("s.txt", "", "\ud800\n"), said="cannot express")
    big = block("big.txt", "", "x" * 1_000_001 + "\n")
    yield Case("a file that is too large", big, said="larger than")
    both = block("n", "", "x\n") + block("n/m", "", "x\n")
    yield Case("a file and a folder of one name", both, said="both a file and a folder")


def malformed() -> list[Case]:
    return [*broken_markers(), *unfound(), *unclear(), *out_of_reach()]
