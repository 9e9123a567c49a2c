"""A registry of images on this machine, over HTTP: the reading half of the distribution API."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LocalRegistry:
    """Serves images by tag; `asked` holds the paths of all requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200
        self._documents: dict[str, bytes] = {}
        registry, documents = self, self._documents

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                body = documents.get(self.path, b"the registry's words")
                self.send_response(registry.status if self.path in documents else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serve(self) -> Generator[LocalRegistry]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def add(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        settings: Mapping[str, Any] | None = None,
        times: int = 1,
    ) -> str:
        """An image of one packed layer, so many times, without a system; its name for FROM."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as layer:
            for path, content in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                layer.addfile(member, io.BytesIO(content))
        raw = data.getvalue()
        root = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}"] * times}
        config = {"architecture": "amd64", "os": "linux", "config": settings or {}, "rootfs": root}
        parts = (json.dumps(config).encode(), gzip.compress(raw))
        blobs = [self._add_blob(name, part) for part in parts]
        manifest = {"schemaVersion": 2, "config": blobs[0], "layers": blobs[1:] * times}
        self._documents[f"/v2/{name}/manifests/latest"] = json.dumps(manifest).encode()
        return f"{self.host}/{name}"

    def _add_blob(self, name: str, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._documents[f"/v2/{name}/blobs/{digest}"] = data
        return {"digest": digest, "size": len(data)}
