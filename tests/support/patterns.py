"""Every regular expression in the source, and texts that would make a slow one show."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from tests.support.sources import ROOT, list_modules, parse

parser: Any = importlib.import_module("re._parser")
ROOMS: Final = ("bot", "pipeline", "sandbox", "prompts")
FUNCTIONS: Final = frozenset(
    {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
)
REPEATED: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


@dataclass(frozen=True)
class Pattern:
    """A regular expression as the source writes it; what is computed in it stands as `x`."""

    place: str
    """`path::owner` with a number, where a function has several."""
    text: str
    flags: int
    function: str
    """`match` and `fullmatch` begin at the text's start only; a compiled one may do either."""
    binary: bool = False


def list_patterns() -> list[Pattern]:
    """Every call of `re` in our packages."""
    found: list[Pattern] = []
    paths = [path for room in ROOMS for path in list_modules(room)]
    uses = {path: Counter(_USE.findall(path.read_text())) for path in paths}
    everywhere = Counter(each for local in uses.values() for each in local.elements())
    for path, local in uses.items():
        tree = parse(path)
        counts: dict[str, int] = {}
        for owner, call in _calls(tree, ""):
            text = _text_of(call.args[0], tree)
            name = f"{path.relative_to(ROOT)}::{owner or 'module'}"
            counts[name] = counts.get(name, 0) + 1
            place = name if counts[name] == 1 else f"{name}#{counts[name]}"
            function = cast(ast.Attribute, call.func).attr
            if function == "compile":
                function = _function_of(call, tree, everywhere, local)
            binary = isinstance(text, bytes)
            shown = text.decode("latin-1") if isinstance(text, bytes) else text
            found.append(Pattern(place, shown, _flags_of(call), function, binary))
    return found


_USE: Final = re.compile(r"\b([A-Za-z_]\w*)\.(match|fullmatch|search|sub|split|findall|finditer)\b")


Use = tuple[str, str]
"""A name and the method of a pattern that is called on it."""


def _function_of(
    call: ast.Call, tree: ast.AST, everywhere: Counter[Use], local: Counter[Use]
) -> str:
    """`match` for a compiled pattern that is only ever applied to the beginning of a text."""
    ways: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.value is call:
            ways.add(node.attr)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is call:
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            uses = local if name.startswith("_") or name.islower() else everywhere
            ways |= {way for owner, way in uses if owner == name}
    return "match" if ways and ways <= {"match", "fullmatch"} else "search"


def _calls(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inner = owner
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = child.name
        elif isinstance(child, ast.Assign | ast.AnnAssign) and not owner:
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            inner = ast.unparse(target)
        if _is_call_of_re(child):
            yield owner or inner, cast(ast.Call, child)
        yield from _calls(child, inner)


def _is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def _text_of(node: ast.expr, tree: ast.AST) -> str | bytes:
    """The pattern's text; a name is looked up in the module, and any other value is `x`."""
    match node:
        case ast.Constant(value=str() | bytes() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(_text_of(part, tree)) for part in parts)
        case ast.FormattedValue(value=ast.Name()):
            return f"(?:{_text_of(node.value, tree)})"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return str(_text_of(left, tree)) + str(_text_of(right, tree))
        case ast.Name(id=name):
            for each in ast.walk(tree):
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name:
                    return _text_of(each.value, tree)
                if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name:
                    return _text_of(each.value, tree) if each.value else "x"
            return "x"
        case _:
            return "x"


def _flags_of(call: ast.Call) -> int:
    names = re.findall(
        r"\bre\.([A-Z]+)\b", " ".join(map(ast.unparse, [*call.args, *call.keywords]))
    )
    flags = 0
    for name in names:
        flags |= getattr(re, name)
    return flags


def list_texts(pattern: Pattern, size: int) -> list[str]:
    """Texts of about `size` characters that nearly match: each repetition of the pattern, and each
    way to it, many times over, with an end at which nothing matches."""
    tree = parser.parse(pattern.text, pattern.flags & ~re.DEBUG)
    pumps = list(dict.fromkeys([*_pumps(list(tree), ""), *_pumps(list(tree), "", least=0)]))
    texts: list[str] = []
    for before, piece in pumps:
        for end in ("\x01", "\n\x01", "x"):
            texts.append(before + _fill(piece, size) + end)
        if before:
            texts.append(_fill(before + piece, size) + "\x01")
            texts.append(_fill(before, size) + "\x01")
            texts.append(_fill(before + _fill(piece, 900) + "\x01\n", size))
    texts += [_fill(piece, size) for piece in ("a", " ", "\n", "a ", "a\n", " \n")]
    return list(dict.fromkeys(texts))


def _fill(piece: str, size: int) -> str:
    return piece * max(1, size // len(piece)) if piece else ""


def _pumps(items: list[Any], before: str, least: int = 1) -> Iterator[tuple[str, str]]:
    """For each repetition without a small bound: an example of what leads to it, and of itself.

    A repetition on the way occurs `least` times or more: once may break what follows, as the `a` of
    `.*` does after a word that must end.
    """
    for operation, value in items:
        name = str(operation)
        if name in REPEATED:
            low, high, inner = value
            piece = _example(list(inner)) or " "
            if high > 30:
                yield before, piece
                for other in _others(list(inner)):
                    yield before, other
            yield from _pumps(list(inner), before, least)
            before += piece * max(low, least if high > 30 else low)
            continue
        for inner in _inner(name, value):
            yield from _pumps(inner, before, least)
        before += _example([(operation, value)])


def _inner(name: str, value: Any) -> list[list[Any]]:
    if name == "SUBPATTERN":
        return [list(value[3])]
    if name == "BRANCH":
        return [list(branch) for branch in value[1]]
    if name == "ATOMIC_GROUP":
        return [list(value)]
    return []


def _others(items: list[Any]) -> list[str]:
    """Other examples of a repeated part: each branch, and white space and words where they fit."""
    found: list[str] = []
    for operation, value in items:
        for inner in _inner(str(operation), value):
            found.append(_example(inner))
        if str(operation) == "IN":
            found += [c for c in (" ", "\n", "a", "1", ",", ".", "-") if _fits(c, value)]
        if str(operation) in ("ANY", "NOT_LITERAL"):
            found += [" ", "a"]
    return [each for each in dict.fromkeys(found) if each][:6]


def _example(items: list[Any]) -> str:
    """A text that matches, as far as that is simple."""
    found = ""
    for operation, value in items:
        name = str(operation)
        if name == "LITERAL":
            found += chr(value)
        elif name in ("ANY", "NOT_LITERAL"):
            found += "a" if name == "ANY" or value != ord("a") else "b"
        elif name == "IN":
            found += next((c for c in _SAMPLE if _fits(c, value)), "a")
        elif name in REPEATED:
            low, high, inner = value
            found += _example(list(inner)) * min(max(low, 1 if high > 30 else low), 30)
        else:
            inner = _inner(name, value)
            found += _example(inner[0]) if inner else ""
    return found


_SAMPLE: Final = "a1 _-.,:/\n\t\"'`<>(){}[]=+*#@!A\x1b"


def _fits(character: str, members: Any) -> bool:
    """Whether a set of the pattern has the character."""
    negated, fits = False, False
    for operation, value in members:
        name = str(operation)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            fits = fits or ord(character) == value
        elif name == "RANGE":
            fits = fits or value[0] <= ord(character) <= value[1]
        elif name == "CATEGORY":
            fits = fits or bool(re.match(_CATEGORIES[str(value)], character))
    return fits != negated


_CATEGORIES: Final = {
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
