"""A registry of images on this machine, over HTTP: the reading half of the distribution API."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import docker


class LocalRegistry:
    """Serves images by tag; `asked` holds the paths of all requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200
        self.pause = 0.0
        """Seconds between the bytes of an answer."""
        self._documents: dict[str, bytes] = {}
        registry, documents = self, self._documents

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                body = documents.get(self.path, b"the registry's words")
                self.send_response(registry.status if self.path in documents else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                step = 1 if registry.pause else len(body)
                for at in range(0, len(body) if self.command == "GET" else 0, step):
                    self.wfile.write(body[at : at + step])
                    time.sleep(registry.pause)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serve(self) -> "Generator[LocalRegistry]":
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
        return self._add(name, [data.getvalue()] * times, settings or {})

    def push(self, name: str, client: docker.APIClient, image: str) -> str:
        """An image of this machine without its labels; its name for FROM."""
        data = io.BytesIO(b"".join(cast(Iterator[bytes], client.get_image(image))))
        with tarfile.open(fileobj=data) as saved:
            read = {one.name: saved.extractfile(one) for one in saved}
            parts = {path: file.read() for path, file in read.items() if file}
        (listed,) = json.loads(parts["manifest.json"])
        settings = json.loads(parts[listed["Config"]])["config"]
        layers = [parts[path] for path in listed["Layers"]]
        return self._add(name, layers, {**settings, "Labels": {}})

    def _add(self, name: str, layers: Sequence[bytes], settings: Mapping[str, Any]) -> str:
        root = {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}" for raw in layers],
        }
        config = {"architecture": "amd64", "os": "linux", "config": settings, "rootfs": root}
        packed = [self._add_blob(name, gzip.compress(raw, 1)) for raw in layers]
        settled = self._add_blob(name, json.dumps(config).encode())
        manifest = {"schemaVersion": 2, "config": settled, "layers": packed}
        self._documents[f"/v2/{name}/manifests/latest"] = json.dumps(manifest).encode()
        return f"{self.host}/{name}"

    def _add_blob(self, name: str, data: bytes) -> dict[str, Any]:
        known = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._documents[f"/v2/{name}/blobs/{known}"] = data
        return {"digest": known, "size": len(data)}
