"""Reads the imports and the functions of Python files, by tree-sitter in a process of its own."""

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from pydantic import BaseModel
from tree_sitter import Node, Query, QueryCursor

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.codebase.isolated import call_isolated
from pipeline.languages.code_scan import CodeScan

_WANTED: Final = "[(import_statement) (import_from_statement) (function_definition)] @wanted"


class _ImportScan(BaseModel):
    imports: dict[str, list[tuple[int, str, list[str]]]] = {}
    """The level of a relative import, the module and the names."""
    functions: dict[str, list[tuple[int, int]]] = {}


async def scan_code(texts: Mapping[str, str]) -> CodeScan:
    """Scan the Python files of `texts`, by path. Empty if the parser fails or exceeds 60 s."""
    python = {path: text for path, text in texts.items() if path.endswith((".py", ".pyi"))}
    output = await call_isolated(scan_by_grammar, json.dumps(python).encode(), seconds=60)
    return await asyncio.to_thread(_read_scan, output or b"{}")


def _read_scan(output: bytes) -> CodeScan:
    found = _ImportScan.model_validate_json(output)
    links = _Links(found.imports)
    return CodeScan(found.functions, links.importers, links.loaders)


def scan_by_grammar(data: bytes) -> bytes:
    """From a JSON object of texts by path to an `_ImportScan` of those without errors."""
    found = _ImportScan()
    grammar = grammar_of("a.py")
    assert grammar is not None
    query = Query(grammar.language, _WANTED)
    for path, text in json.loads(data).items():
        tree = parse_code(grammar, text.encode("utf-8", "replace"))
        if tree is not None and not tree.root_node.has_error:
            imports, functions = found.imports[path], found.functions[path] = [], []
            wanted = QueryCursor(query).captures(tree.root_node).get("wanted", ())
            for node in sorted(wanted, key=lambda one: one.start_byte):  # they come in any order
                _add(node, imports, functions)
    return found.model_dump_json().encode()


def _add(
    node: Node, imports: list[tuple[int, str, list[str]]], functions: list[tuple[int, int]]
) -> None:
    names = [_name(child) for child in node.children_by_field_name("name")]
    if node.type == "function_definition":
        above = node.parent
        first = above if above and above.type == "decorated_definition" else node
        functions.append((first.start_point[0] + 1, node.end_point[0] + 1))
    elif node.type == "import_statement":
        imports += [(0, name, []) for name in names]
    else:
        module = _name(node.child_by_field_name("module_name") or node)
        name = module.lstrip(".")
        imports.append((len(module) - len(name), name, names))


def _name(node: Node) -> str:
    """A dotted name, without the name that it gets here."""
    named = node.child_by_field_name("name") if node.type == "aliased_import" else node
    return "".join(((named or node).text or b"").decode().split())


class _Links:
    """The import statements of a repository's own files, resolved among themselves."""

    def __init__(self, imports: Mapping[str, Sequence[tuple[int, str, Sequence[str]]]]) -> None:
        """`imports` by path: level of a relative import, module, names, in `ast`'s form."""
        self._modules: dict[str, set[str]] = {}
        for path in imports:
            for name in _module_names(path, imports.keys()):
                self._modules.setdefault(name, set()).add(path)
        self.importers: dict[str, set[str]] = {}
        self.loaders: dict[str, set[str]] = {}
        for path, statements in imports.items():
            for level, module, names in statements:
                self._link(path, _make_absolute(path, level, module), names)
            for folder in PurePosixPath(path).parents:  # what pytest loads for a test file
                conftest = str(folder / "conftest.py")
                if conftest in imports and conftest != path:
                    self.importers.setdefault(conftest, set()).add(path)

    def _link(self, path: str, module: str, names: Sequence[str]) -> None:
        parts = module.split(".") if module else []
        targets = set(self._modules.get(module, ()))
        for name in names:
            targets |= self._modules.get(".".join([*parts, name]), set())
        for target in targets - {path}:
            self.importers.setdefault(target, set()).add(path)
        for end in range(1, len(parts)):
            for target in self._modules.get(".".join(parts[:end]), set()) - {path}:
                self.loaders.setdefault(target, set()).add(path)


def _make_absolute(path: str, level: int, module: str) -> str:
    if not level:
        return module
    folders = PurePosixPath(path).parts[:-1]
    kept = folders[: len(folders) - level + 1]
    return ".".join([*kept, *filter(None, [module])])


def _module_names(path: str, files: Collection[str]) -> Iterator[str]:
    """The names under which one of `files` may be imported: from the root, from `src`, from the
    folder around its outermost package, such as a project of several, or from its own folder."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    if not parts:
        return
    yield ".".join(parts)
    if len(parts) > 1 and parts[0] in ("src", "lib"):
        yield ".".join(parts[1:])
    if len(parts) > 1 and not path.endswith("__init__.py"):
        yield parts[-1]
    outermost = len(parts) - 1
    while outermost and f"{'/'.join(parts[:outermost])}/__init__.py" in files:
        outermost -= 1
    if outermost:
        yield ".".join(parts[outermost:])
