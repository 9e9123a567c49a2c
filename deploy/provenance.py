"""Writes what was built from what, in the form of SLSA: `make release`.

An in-toto statement (https://in-toto.io/Statement/v1) with the predicate
https://slsa.dev/provenance/v1: the digests of the artifacts, the commit, the lock file, the images
that the container is based on, and the builder.
"""

import argparse
import hashlib
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe(
    artifacts: list[Path],
    images: dict[str, str],
    *,
    commit: str,
    source: str,
    lock: Path,
    bases: dict[str, str],
    builder: str,
) -> dict[str, Any]:
    """The statement. `images` and `bases` are names and their sha256 digests in hexadecimal."""
    subjects = [{"name": p.name, "digest": {"sha256": digest(p)}} for p in artifacts]
    subjects += [{"name": n, "digest": {"sha256": d}} for n, d in images.items()]
    materials = [
        {"uri": source, "digest": {"gitCommit": commit}},
        {"uri": "uv.lock", "digest": {"sha256": digest(lock)}},
        *({"uri": name, "digest": {"sha256": found}} for name, found in bases.items()),
    ]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:capuchin:make-release:v1",
                "externalParameters": {"source": source, "commit": commit},
                "internalParameters": {"python": platform.python_version()},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {"finishedOn": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")},
            },
        },
    }


def parse_pair(text: str) -> tuple[str, str]:
    """`NAME=sha256:HEX` as its two parts."""
    name, _, found = text.rpartition("=")
    value = found.removeprefix("sha256:")
    if not name or len(value) != 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=sha256:DIGEST")
    return name, value


def main() -> int:
    parser = argparse.ArgumentParser(prog="provenance")
    parser.add_argument("artifacts", nargs="*", type=Path)
    parser.add_argument("--image", action="append", default=[], type=parse_pair)
    parser.add_argument("--base", action="append", default=[], type=parse_pair)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--builder", required=True)
    parser.add_argument("--lock", type=Path, default=Path("uv.lock"))
    given = parser.parse_args()
    statement = describe(
        given.artifacts,
        dict(given.image),
        commit=given.commit,
        source=given.source,
        lock=given.lock,
        bases=dict(given.base),
        builder=given.builder,
    )
    sys.stdout.write(json.dumps(statement, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
