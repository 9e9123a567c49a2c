"""A small YAML file from a stranger, read safely, with the position of every value.

libyaml parses 64 KiB in a few milliseconds, but composes nodes by recursion and crashes on deep
nesting. Therefore its events are checked first.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    ScalarEvent,
)
from yaml.nodes import MappingNode, Node, SequenceNode

from bot.errors import BotError

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 20
_MALFORMED: Final = "Not YAML: a value is malformed or too large."
_PLAIN_PROBLEMS: Final = {
    "violates indentation": "a tab cannot indent a line. Use spaces.",
    "cannot start any token": "no value starts with this character. Put the value in quotes; "
    "indent with spaces, not tabs.",
    "mapping values are not allowed": "this line has two colons, or is indented too "
    "far. Indent it like its neighbours; put a text that contains a colon in quotes.",
    "unexpected end of stream": "this quote is not closed.",
    "expected ',' or": "this bracket is not closed.",
    "could not find expected ':'": "the previous setting lacks a colon followed by a space.",
    "did not find expected key": "the line is not indented like its neighbours.",
    "did not find expected '-' indicator": "the line is not indented like its neighbours.",
}
"""What the parser reports, and a sentence for the file's author."""


class UnreadableYaml(BotError):
    """The text is not the YAML that is read here; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class YamlFile:
    """One document of plain data. `parse` makes it."""

    def __init__(self, root: Node | None, json_text: str) -> None:
        self._root = root
        self._json = json_text
        self._children: dict[int, dict[str, tuple[Node, Node]]] = {}
        """The keys and values of each mapping, by the mapping's `id`."""

    @classmethod
    def parse(cls, text: str) -> "YamlFile":
        """Read one document without anchors, aliases or tags.

        Raises:
            UnreadableYaml: the text is something else; the message may quote it.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise UnreadableYaml("The file contains invalid characters.") from None
        if len(data) > MAX_BYTES:
            raise UnreadableYaml(f"The file is larger than {MAX_BYTES // 1024} KiB.")
        try:
            _check_events(data)
            loader = _Loader(data)
            root = loader.get_single_node()
            found = None if root is None else loader.construct_document(root)
            return cls(root, _to_json({} if found is None else found))
        except yaml.MarkedYAMLError as error:
            raise _to_unreadable(error) from None
        except yaml.YAMLError as error:
            raise UnreadableYaml(f"Not YAML: {str(error).splitlines()[0]}.") from None

    def to_json(self) -> str:
        """The document as JSON, without keys that have no value; an empty document is `{}`."""
        return self._json

    def position(self, path: Sequence[int | str], *, of_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value (or key) at `path`, or of its nearest parent."""
        node = key = self._root
        for part in path:
            step = self._child(node, part)
            if step is None:
                break
            key, node = step
        found = key if of_key else node
        return (1, 1) if found is None else _place(found.start_mark)

    def list_duplicates(self) -> list[tuple[int, int, str]]:
        """Line, column and name of each key that its mapping has already."""
        found: list[tuple[int, int, str]] = []
        nodes = [] if self._root is None else [self._root]
        while nodes:
            node = nodes.pop()
            if isinstance(node, SequenceNode):
                nodes += cast(list[Node], node.value)
            elif isinstance(node, MappingNode):
                known: set[str] = set()
                for key, value in cast(list[tuple[Node, Node]], node.value):
                    name = str(cast(Any, key).value)
                    if name in known:
                        found.append((*_place(key.start_mark), name))
                    known.add(name)
                    nodes.append(value)
        return found

    def _child(self, node: Node | None, part: int | str) -> tuple[Node, Node] | None:
        """The key and the value at `part`; an item of a list is both."""
        if isinstance(node, MappingNode):
            return self._keys_of(node).get(str(part))
        if isinstance(node, SequenceNode) and isinstance(part, int):
            items = cast(list[Node], node.value)
            return (items[part], items[part]) if part < len(items) else None
        return None

    def _keys_of(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        if id(node) not in self._children:
            pairs = cast(list[tuple[Node, Node]], node.value)  # of duplicates, the last counts
            self._children[id(node)] = {str(cast(Any, key).value): (key, v) for key, v in pairs}
        return self._children[id(node)]


def _check_events(data: bytes) -> None:
    """Refuse what a small file could blow up with, or what no settings hold."""
    open_collections: list[bool] = []
    """Whether each is a mapping."""
    is_key = False
    for event in cast(Any, yaml).parse(data, Loader=yaml.CSafeLoader):
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _unreadable_at(event.start_mark, "Anchors and aliases are not read here.")
        if getattr(event, "tag", None) is not None:
            raise _unreadable_at(event.start_mark, "Tags such as !!str are not read here.")
        if isinstance(event, CollectionStartEvent):
            if is_key:
                raise _unreadable_at(event.start_mark, "A key must be a word, no list or mapping.")
            if len(open_collections) == MAX_DEPTH:
                raise _unreadable_at(event.start_mark, "Nested too deeply.")
            is_key = isinstance(event, MappingStartEvent)
            open_collections.append(is_key)
        elif isinstance(event, CollectionEndEvent):
            open_collections.pop()
            is_key = bool(open_collections) and open_collections[-1]
        elif isinstance(event, ScalarEvent):
            is_key = bool(open_collections) and open_collections[-1] and not is_key


class _Loader(yaml.CSafeLoader):
    """Reports the place of a value that cannot be read, such as the date 2020-99-99."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        # Longer numbers take Python long to read and to print.
        if node.tag.endswith((":int", ":float")) and len(node.value) > 300:
            raise _unreadable_at(node.start_mark, _MALFORMED)
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, LookupError, ValueError):
            raise _unreadable_at(node.start_mark, _MALFORMED) from None


def _to_unreadable(error: yaml.MarkedYAMLError) -> UnreadableYaml:
    opened, problem = cast(Any, error.context_mark), str(error.problem or "")
    mark = error.problem_mark or opened
    for found, plain in _PLAIN_PROBLEMS.items():
        if found in problem:
            is_unclosed = plain.endswith("not closed.") and opened is not None
            return _unreadable_at(opened if is_unclosed else mark, f"Not YAML: {plain}")
    return _unreadable_at(mark, f"Not YAML: {problem or error.context}.")


def _to_json(data: object) -> str:
    try:
        return json.dumps(_without_nulls(data), default=str)
    except TypeError:
        return "null"  # some key is a date or the like, so this is not a mapping of settings


def _without_nulls(data: object) -> object:
    if not isinstance(data, dict):
        return data
    pairs = cast(dict[Any, object], data).items()
    return {key: _without_nulls(value) for key, value in pairs if value is not None}


def _unreadable_at(mark: Any, message: str) -> UnreadableYaml:
    return UnreadableYaml(message) if mark is None else UnreadableYaml(message, *_place(mark))


def _place(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1
