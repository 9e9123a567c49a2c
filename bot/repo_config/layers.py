"""Merges the defaults, the organisation's file and the repository's file, key by key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel

from bot.repo_config.model import ConfigProblem, RepoConfig, parse_config

DEFAULT_SOURCE: Final = "default"
"""The source of a value that no file sets."""


@dataclass(frozen=True)
class Layer:
    """One file of settings."""

    source: str
    """Its name for people."""
    text: str


class LayerProblem(NamedTuple):
    """An invalid file and its first problem."""

    source: str
    problem: ConfigProblem


class Setting(NamedTuple):
    """A key with its effective value; dots join nested keys."""

    key: str
    value: str
    """As JSON, which is also YAML. May quote the file: untrusted."""
    source: str
    """`default`, or the source of the file that sets it."""


@dataclass(frozen=True)
class EffectiveConfig:
    """The merged settings."""

    config: RepoConfig
    origins: Mapping[str, str]
    """Each key that a file sets, with dots, and the source of the last such file."""


def merge_layers(layers: Sequence[Layer]) -> EffectiveConfig | LayerProblem:
    """Merge files; a later file overrides an earlier one.

    Each file must be valid by itself. Mappings are merged key by key; a list is replaced whole.
    """
    return merge_parsed([(layer.source, parse_config(layer.text)) for layer in layers])


def merge_parsed(
    layers: Sequence[tuple[str, RepoConfig | ConfigProblem]],
) -> EffectiveConfig | LayerProblem:
    """As `merge_layers`, for files that are parsed already, each with its source."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source, found in layers:
        if isinstance(found, ConfigProblem):
            return LayerProblem(source, found)
        given = found.model_dump(exclude_unset=True)
        _merge(values, given)
        origins.update(dict.fromkeys(_key_paths(given), source))
    return EffectiveConfig(RepoConfig.model_validate(values), origins)


def list_settings(effective: EffectiveConfig) -> list[Setting]:
    """All keys in the order of the model, with values and sources."""
    return [
        Setting(key, value, effective.origins.get(key, DEFAULT_SOURCE))
        for key, value in _flatten(effective.config)
    ]


def _flatten(model: BaseModel, prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    plain = model.model_dump(mode="json")
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            rows += _flatten(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", json.dumps(plain[name], ensure_ascii=False)))
    return rows


def _merge(onto: dict[str, Any], given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(onto.get(key), dict):
            _merge(onto[key], cast(dict[str, Any], value))
        else:
            onto[key] = value


def _key_paths(given: Mapping[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, value in given.items():
        if isinstance(value, dict):
            found += _key_paths(cast(dict[str, Any], value), f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key}")
    return found
