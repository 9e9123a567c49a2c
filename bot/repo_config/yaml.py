"""A small YAML file from a stranger: read safely, with the place of everything in it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any, Final, cast

import yaml

from bot.errors import BotError

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 20  # PyYAML's composer recurses; no setting is deeper than three


class UnreadableYaml(BotError):
    """The text is not YAML that is read here; `line` and `column` are counted from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class YamlFile:
    """One document of plain data. Made by `parse`."""

    def __init__(self, root: yaml.Node | None, data: object) -> None:
        self._root = root
        self._data = data

    @classmethod
    def parse(cls, text: str) -> YamlFile:
        """Read one document without anchors, aliases, tags of Python's or repeated keys.

        Raises:
            NotReadable: it is not that; its words may quote the text.
        """
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise UnreadableYaml(f"The file is larger than {MAX_BYTES // 1024} KiB.")
        try:
            _check_shape(text)
            loader = yaml.SafeLoader(text)
            root = loader.get_single_node()
            _check_keys(root)
            data = None if root is None else loader.construct_document(root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise _unreadable_at(mark, f"Not YAML: {error.problem or error.context}.") from None
        except (yaml.YAMLError, ValueError) as error:
            raise UnreadableYaml(f"Not YAML: {str(error).splitlines()[0]}.") from None
        return cls(root, data)

    def to_json(self) -> str:
        """The document as JSON; keys without a value are left out, nothing at all is `{}`."""
        data: object = {} if self._data is None else _without_nulls(self._data)
        try:
            return json.dumps(data, default=str)
        except TypeError:
            return "null"  # keys that are no words: no setting is called so

    def position(self, path: Sequence[int | str], *, of_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value (or its key) at `path`, or as near as there is."""
        node, key = self._root, self._root
        for part in path:
            step = _child(node, part)
            if step is None:
                break
            key, node = step
        found = key if of_key else node
        if found is None:
            return 1, 1
        return found.start_mark.line + 1, found.start_mark.column + 1


def _check_shape(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _unreadable_at(event.start_mark, "Anchors and aliases are not read here.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _unreadable_at(event.start_mark, "Nested too deeply.")


def _check_keys(node: yaml.Node | None) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item)
    elif isinstance(node, yaml.MappingNode):
        seen: set[Hashable] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise _unreadable_at(key.start_mark, f'"{key.value}" is set twice.')
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
            _check_keys(value)


def _child(node: yaml.Node | None, part: int | str) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _without_nulls(data: object) -> object:
    if not isinstance(data, dict):
        return data
    pairs = cast(dict[Any, object], data).items()
    return {key: _without_nulls(value) for key, value in pairs if value is not None}


def _unreadable_at(mark: Any, message: str) -> UnreadableYaml:
    if mark is None:
        return UnreadableYaml(message)
    return UnreadableYaml(message, mark.line + 1, mark.column + 1)
