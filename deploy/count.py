"""Counts the house: lines, modules, constants, options, floors and circles (`make count`).

Lines are all lines of the Python files that git tracks. A constant is a name in capitals that a
module assigns at its top level. The floors of a package are the longest chain of imports among its
direct children; a circle is a group of modules each of which reaches the others by imports.
"""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SERVICE = ("bot", "pipeline", "sandbox", "prompts")
LAB = ("pipeline/lab/", "bot/cli/lab/")
DEMO = "deploy/demo/"

Graph = Mapping[str, set[str]]


def list_files() -> list[str]:
    """The tracked Python files, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def room_of(name: str) -> str:
    if name.startswith(DEMO):
        return "demo"
    if name.startswith(LAB):
        return "lab"
    first = name.split("/")[0]
    return "service" if first in SERVICE else first


def count_constants(tree: ast.Module) -> int:
    found = 0
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value:
            targets = [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        found += sum(bool(re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name)) for name in names)
    return found


def module_name(path: str) -> str:
    return path.removeprefix(DEMO).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def read_imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules each module imports, at any depth of its text, type checking included."""
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        asked: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                asked |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                modules = inner & trees.keys()
                asked |= modules or {node.module}
        found[name] = (asked & trees.keys()) - {name}
    return found


def find_circles(graph: Graph) -> list[set[str]]:
    """The strongly connected components of more than one node (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[set[str]] = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in graph[node]:
            if other not in numbers:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], numbers[other])
        if lowest[node] == numbers[node]:
            place = stack.index(node)
            circle, stack[place:] = set(stack[place:]), []
            if len(circle) > 1:
                circles.append(circle)

    for node in graph:
        if node not in numbers:
            visit(node)
    return circles


def count_floors(package: str, graph: Graph) -> int:
    """The longest chain of the package's direct children; a circle of them counts as one floor."""
    inside = f"{package}."

    def child(name: str) -> str:
        return name.removeprefix(inside).split(".")[0]

    rooms: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        if name.startswith(inside):
            targets = {child(other) for other in others if other.startswith(inside)}
            rooms[child(name)] |= targets - {child(name)}
    for others in list(rooms.values()):
        for other in others:
            rooms.setdefault(other, set())
    whole = {room: room for room in rooms}
    for circle in find_circles(rooms):
        whole |= dict.fromkeys(circle, min(circle))
    merged: dict[str, set[str]] = defaultdict(set)
    for room, others in rooms.items():
        merged[whole[room]] |= {whole[other] for other in others} - {whole[room]}
    floors: dict[str, int] = {}
    for room in TopologicalSorter(merged).static_order():
        floors[room] = 1 + max((floors[other] for other in merged[room]), default=0)
    return max(floors.values(), default=0)


def count_options() -> dict[str, int]:
    """What can be set, as `tests/doors` lists it: environment variables, keys of the settings file
    without those that hold others, and the commands' flags."""
    doors = ROOT / "tests/doors/expected"
    variables = json.loads((doors / "environment.json").read_text(encoding="utf-8"))
    keys = json.loads((doors / "repository_file.json").read_text(encoding="utf-8"))
    flags = re.findall(r'"--[a-z-]+": ', (doors / "command_line.json").read_text(encoding="utf-8"))
    above = {key.rpartition(".")[0] for key in keys}
    leaves = [key for key in keys if key not in above or key == "generators"]
    leaves = [key for key in leaves if not key.startswith("generators.")]
    return {"variables": len(variables), "keys": len(leaves), "flags": len(flags)}


def print_row(name: str, values: Iterable[object]) -> None:
    columns = "".join(f"{value:>12}" for value in values)
    sys.stdout.write(f"{name:<24}{columns}\n")


def main() -> None:
    sys.setrecursionlimit(10_000)
    lines: dict[str, int] = defaultdict(int)
    modules: dict[str, int] = defaultdict(int)
    constants: dict[str, int] = defaultdict(int)
    parts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    trees: dict[str, ast.Module] = {}
    for name in list_files():
        text = (ROOT / name).read_text(encoding="utf-8")
        room = room_of(name)
        lines[room] += text.count("\n")
        if room not in {"service", "lab", "demo"}:
            continue
        tree = trees[module_name(name)] = ast.parse(text)
        found = count_constants(tree)
        modules[room] += 1
        constants[room] += found
        part = "/".join(Path(name.removeprefix(DEMO)).parts[:2])
        counted = (text.count("\n"), 1, found)
        parts[part] = [a + b for a, b in zip(parts[part], counted, strict=True)]
    print_row("", ("lines", "modules", "constants"))
    if "--parts" in sys.argv:
        for part in sorted(parts):
            print_row(part, parts[part])
    for room in ("service", "lab", "demo"):
        print_row(room, (lines[room], modules[room], constants[room]))
    print_row("tests", (lines["tests"],))
    print_row("tree", (sum(lines.values()),))
    for kind, number in count_options().items():
        print_row(kind, (number,))
    graph = read_imports(trees)
    circles = find_circles(graph)
    for package in ("bot", "pipeline", "sandbox"):
        print_row(f"floors of {package}", (count_floors(package, graph),))
    print_row("circles", (len(circles),))
    for circle in circles:
        sys.stdout.write(f"  {' '.join(sorted(circle))}\n")


if __name__ == "__main__":
    main()
