"""Small container images, made by hand in the form of `docker save`."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_image(archive: Path, name: str, files: Mapping[str, Path], command: list[str]) -> None:
    """An image of one layer: programs by their paths, and what it runs."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, program in files.items():
            add_file(tar, path, program.read_bytes())
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        add_file(tar, "layer.tar", layer.getvalue())
        add_file(tar, "config.json", json.dumps(config).encode())
        add_file(tar, "manifest.json", json.dumps(manifest).encode())


def add_file(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), 0o755
    tar.addfile(entry, io.BytesIO(content))
