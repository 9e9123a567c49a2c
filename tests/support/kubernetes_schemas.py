"""Kubernetes' own schemas, as the package kubernetes-validate brings them.

Its own checker takes seconds of processor time to import: it compiles grammars of addresses.
"""

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema_rs


def check_manifest(manifest: dict[str, Any], version: str) -> None:
    """Check a manifest strictly, as Kubernetes `version` ("1.34") does: no unknown field.

    Raises:
        jsonschema_rs.ValidationError: Kubernetes would refuse it.
        FileNotFoundError: this Kubernetes knows no such kind.
    """
    # `rbac.authorization.k8s.io/v1` is `rbac-v1` in the names of files.
    api = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", manifest["apiVersion"])
    _load_validator(f"{manifest['kind'].lower()}-{api}", version).validate(manifest)


@cache
def _load_validator(name: str, version: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        json.loads((_find_folder(version) / f"{name}.json").read_text()),
        registry=_load_definitions(version),
    )


@cache
def _load_definitions(version: str) -> jsonschema_rs.Registry:
    content = json.loads((_find_folder(version) / "_definitions.json").read_text())
    return jsonschema_rs.Registry([(content["$id"], content)], draft=jsonschema_rs.Draft202012)


def _find_folder(version: str) -> Path:
    package = find_spec("kubernetes_validate")
    assert package
    assert package.submodule_search_locations
    (folder,) = package.submodule_search_locations
    return Path(folder) / f"kubernetes-json-schema/v{version}.0-local-strict"
