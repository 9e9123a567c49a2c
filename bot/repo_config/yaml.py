"""A small YAML file from a stranger, read safely, with the position of every value."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bot.errors import BotError

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 20  # the composer recurses; no key is deeper than three
MAX_BITS: Final = 1024
"""Of an integer: more than any setting, and fewer than take long to print."""
_MALFORMED: Final = "Not YAML: a value is malformed or too large."
_PLAIN_PROBLEMS: Final = {
    r"'\t' that cannot start": "a tab is not read as indentation. Use spaces.",
    "mapping values are not allowed": "a second setting does not belong on this line, or under the "
    "one before. Indent it like its neighbours; put a text that holds a colon in quotes.",
    "unexpected end of stream": "this quote is not closed.",
    "got '<stream end>'": "this bracket is not closed.",
    "could not find expected ':'": "the setting before this has no colon with a space after it.",
    "expected <block end>": "the line is not indented like its neighbours.",
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
    def parse(cls, text: str) -> YamlFile:
        """Read one document without anchors, aliases or unknown tags.

        Raises:
            UnreadableYaml: the text is something else; the message may quote it.
        """
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise UnreadableYaml(f"The file is larger than {MAX_BYTES // 1024} KiB.")
        reader = YAML(typ="safe", pure=True)
        reader.allow_duplicate_keys = True  # `list_duplicates` finds them all
        reader.version = (1, 1)  # `no` and `off` are false, as in most programs that read YAML
        reader.Composer = _FlatComposer
        reader.Constructor = _PlainConstructor
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)
                root = cast(Node | None, reader.compose(text))
                data = None if root is None else reader.constructor.construct_document(root)
            return cls(root, _to_json({} if data is None else data))
        except MarkedYAMLError as error:
            raise _to_unreadable(error) from None
        except YAMLError as error:
            raise UnreadableYaml(f"Not YAML: {str(error).splitlines()[0]}.") from None
        except ValueError:  # of the JSON
            raise UnreadableYaml(_MALFORMED) from None

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
            found: dict[str, tuple[Node, Node]] = {}
            for key, value in cast(list[tuple[Node, Node]], node.value):
                if isinstance(key, ScalarNode):
                    found.setdefault(str(cast(Any, key).value), (key, value))
            self._children[id(node)] = found
        return self._children[id(node)]


class _FlatComposer(Composer):
    """Refuses, while it reads, what a small file could blow up with, or what no settings hold."""

    _depth = 0

    def get_single_node(self) -> Any:
        try:
            return cast(Any, super()).get_single_node()
        except (YAMLError, UnreadableYaml):
            raise
        except Exception:  # noqa: BLE001 - the scanner raises anything, as for a bad escape
            mark = cast(Any, self.parser).scanner.reader.get_mark()
            raise _unreadable_at(mark, _MALFORMED) from None

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = cast(Any, self.parser).peek_event()
        if event.anchor is not None:  # an alias has one, too
            raise _unreadable_at(event.start_mark, "Anchors and aliases are not read here.")
        if isinstance(parent, MappingNode) and index is None and _is_collection(event):
            raise _unreadable_at(event.start_mark, "A key must be a word, no list or mapping.")
        self._depth += 1
        if self._depth > MAX_DEPTH and _is_collection(event):
            raise _unreadable_at(event.start_mark, "Nested too deeply.")
        node = cast(Any, super()).compose_node(parent, index)
        self._depth -= 1
        return node


class _PlainConstructor(SafeConstructor):
    """Gives a value that its tag does not allow, as in `!!bool maybe`, its place."""

    def construct_document(self, node: Any) -> Any:
        """Lists and mappings are filled last, where tags such as `!!omap` assert what they like."""
        try:
            return cast(Any, super()).construct_document(node)
        except (YAMLError, UnreadableYaml):
            raise
        except Exception:  # noqa: BLE001 - AssertionError, TypeError, …
            raise _unreadable_at(node.start_mark, _MALFORMED) from None

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            value = cast(Any, super()).construct_object(node, deep)
        except (YAMLError, UnreadableYaml):
            raise
        except Exception:  # noqa: BLE001 - KeyError, IndexError, AttributeError, OverflowError, …
            raise _unreadable_at(node.start_mark, _MALFORMED) from None
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise _unreadable_at(node.start_mark, _MALFORMED)
        return value


def _is_collection(event: Any) -> bool:
    return isinstance(event, CollectionStartEvent)


def _to_unreadable(error: MarkedYAMLError) -> UnreadableYaml:
    opened, problem = cast(Any, error.context_mark), str(cast(Any, error.problem) or "")
    mark = cast(Any, error.problem_mark) or opened
    for found, plain in _PLAIN_PROBLEMS.items():
        if found in problem:
            is_unclosed = plain.endswith("not closed.") and opened is not None
            return _unreadable_at(opened if is_unclosed else mark, f"Not YAML: {plain}")
    return _unreadable_at(mark, f"Not YAML: {problem or error.context}.")


def _to_json(data: object) -> str:
    try:
        return json.dumps(_without_nulls(data), default=str)
    except TypeError:
        return "null"  # some key is a date or the like, so this is no mapping of settings


def _without_nulls(data: object) -> object:
    if not isinstance(data, dict):
        return data
    pairs = cast(dict[Any, object], data).items()
    return {key: _without_nulls(value) for key, value in pairs if value is not None}


def _unreadable_at(mark: Any, message: str) -> UnreadableYaml:
    return UnreadableYaml(message) if mark is None else UnreadableYaml(message, *_place(mark))


def _place(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1
