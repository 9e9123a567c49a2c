"""Fetches an image from a registry, so that no daemon goes to an address that a repository names.

A daemon would follow any host, redirect or address in a manifest, and unpack without a limit. Here
the manifest is read first, layers come from the registry alone, and their bytes are counted as they
unpack: https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

import gzip
import hashlib
import io
import json
import re
import ssl
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import httpx
import zstandard

from sandbox.environment.dockerfile import DOCKER_HUB, ImageName
from sandbox.tree import Archive

_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
"""Registries limit manifests to as much."""
_ACCEPT: Final = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        *("oci.image.manifest.v1", "oci.image.index.v1"),
        *("docker.distribution.manifest.v2", "docker.distribution.manifest.list.v2"),
    )
)
MOST_LAYERS: Final = 127
"""As overlayfs takes at most, with Docker."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class NotFetched(Exception):
    """The image cannot be had; `str(error)` goes on with "could not be fetched:"."""


class ImageManifest(NamedTuple):
    """What makes up an image."""

    config: bytes
    settings: Mapping[str, Any]
    """The settings of its containers, such as labels."""
    layers: tuple[tuple[str, int], ...]
    """The digest of each, and its packed bytes."""

    @property
    def image_id(self) -> str:
        """By which the daemon knows it, if it has it."""
        return f"sha256:{hashlib.sha256(self.config).hexdigest()}"


class Registry:
    """Reads one image of a registry, without any login. Blocking."""

    def __init__(
        self, name: ImageName, *, ca_bundle: Path | None, proxy: str, check: Callable[[], None]
    ) -> None:
        """`check` is called now and then, and raises an error to end it."""
        host = "registry-1.docker.io" if name.registry == DOCKER_HUB else name.registry
        is_local = re.fullmatch(r"localhost|127\.[\d.]+", host.partition(":")[0])  # as for Docker
        self._url = f"{'http' if is_local else 'https'}://{host}/v2/{name.repository}"
        self._name = name
        self._check = check
        self._headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity"}
        verify = ssl.create_default_context(cafile=str(ca_bundle) if ca_bundle else None)
        self._client = httpx.Client(
            verify=verify, proxy=proxy or None, trust_env=False, timeout=60, follow_redirects=True
        )

    def close(self) -> None:
        self._client.close()

    def read_manifest(self, architecture: str) -> ImageManifest:
        """The manifest for Linux on `architecture`. Raises `NotFetched`."""
        try:
            found = self._read_document(self._name.reference)
            if "manifests" in found:
                found = self._read_document(_find_platform(found, architecture))
            digest = _digest_of(found["config"])
            config = b"".join(self._read(f"blobs/{digest}", _DOCUMENT_BYTES, digest))
            settings: dict[str, Any] = {**(json.loads(config).get("config") or {})}
            layers = tuple((_digest_of(one), int(one["size"])) for one in found["layers"])
        except (ValueError, LookupError, TypeError, AttributeError):
            raise NotFetched("its manifest cannot be read.") from None
        return ImageManifest(config, settings, layers)

    def fetch(self, manifest: ImageManifest, tag: str, *, most: int) -> Archive:
        """The image as an archive that `docker load` reads.

        Raises:
            NotFetched: it has more than `most` bytes unpacked, or a layer is not what its manifest
                says.
        """
        if sum(size for _, size in manifest.layers) > most:
            raise NotFetched("it is too large.")
        if len(manifest.layers) > MOST_LAYERS:
            raise NotFetched(f"it has more than {MOST_LAYERS} layers.")
        config = f"{manifest.image_id[7:]}.json"
        names = {digest: f"{digest[7:]}.tar" for digest, _ in manifest.layers}
        layers = [names[digest] for digest, _ in manifest.layers]
        told = json.dumps([{"Config": config, "RepoTags": [tag], "Layers": layers}]).encode()
        left = most
        with tempfile.TemporaryFile() as file, tarfile.open(fileobj=file, mode="w") as archive:
            for name, data in ((config, manifest.config), ("manifest.json", told)):
                _add(archive, name, io.BytesIO(data), len(data))
            for digest, size in dict(manifest.layers).items():
                with tempfile.TemporaryFile() as packed, tempfile.TemporaryFile() as layer:
                    packed.writelines(self._read(f"blobs/{digest}", size, digest))
                    packed.seek(0)
                    unpacked = _unpack(packed, layer, left)
                    left -= unpacked * layers.count(names[digest])
                    if left < 0:
                        raise NotFetched("it is too large.")
                    _add(archive, names[digest], layer, unpacked)
            archive.close()
            return Archive(file)

    def _read_document(self, reference: str) -> dict[str, Any]:
        digest = reference if _DIGEST.fullmatch(reference) else ""
        data = b"".join(self._read(f"manifests/{reference}", _DOCUMENT_BYTES, digest))
        return cast("dict[str, Any]", json.loads(data))

    def _read(self, path: str, most: int, digest: str) -> Iterator[bytes]:
        """Raises `NotFetched`: there is no such thing, or it is longer or another one."""
        hashed, read = hashlib.sha256(), 0
        try:
            with self._open(path) as answer:
                if answer.status_code != 200:
                    raise NotFetched(f"its registry answers with {answer.status_code}.")
                for chunk in answer.iter_raw():
                    self._check()
                    hashed.update(chunk)
                    read += len(chunk)
                    if read > most:
                        raise NotFetched("it is larger than its manifest says.")
                    yield chunk
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            raise NotFetched("its registry does not answer.") from None
        if digest and f"sha256:{hashed.hexdigest()}" != digest:
            raise NotFetched("its registry sends something else than its manifest says.")

    def _open(self, path: str) -> AbstractContextManager[httpx.Response]:
        url = f"{self._url}/{path}"
        if "Authorization" not in self._headers:
            asked = self._client.head(url, headers=self._headers)
            if asked.status_code == 401:
                token = self._ask_for_token(asked.headers.get("WWW-Authenticate", ""))
                self._headers["Authorization"] = f"Bearer {token}"
        return self._client.stream("GET", url, headers=self._headers)

    def _ask_for_token(self, challenge: str) -> str:
        """Get a token: https://distribution.github.io/distribution/spec/auth/token."""
        said = dict(re.findall(r'(\w{1,20})="([^"]{0,500})"', challenge[:4000]))
        scope = f"repository:{self._name.repository}:pull"
        asked = {"scope": scope, "service": said.get("service", "")}
        if not said.get("realm", "").startswith("https://"):
            raise NotFetched("its registry wants a login.")
        try:
            found: dict[str, Any] = {**self._client.get(said["realm"], params=asked).json()}
        except (ValueError, TypeError):
            raise NotFetched("its registry wants a login.") from None
        return str(found.get("token") or found.get("access_token") or "")


def _find_platform(index: Mapping[str, Any], architecture: str) -> str:
    for one in index["manifests"]:
        platform: Mapping[str, Any] = one.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", architecture):
            return _digest_of(one)
    raise NotFetched(f"there is none for linux/{architecture}.")


def _digest_of(descriptor: Mapping[str, Any]) -> str:
    if not _DIGEST.fullmatch(str(descriptor["digest"])):
        raise ValueError(descriptor)
    return str(descriptor["digest"])


def _add(archive: tarfile.TarFile, name: str, data: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    data.seek(0)
    archive.addfile(member, data)


def _unpack(packed: IO[bytes], into: IO[bytes], most: int) -> int:
    """Write a layer's tar into `into`; its bytes. Raises `NotFetched` for more than `most`."""
    magic = packed.read(4)
    packed.seek(0)
    opened: IO[bytes] = packed
    if magic[:2] == b"\x1f\x8b":
        opened = cast("IO[bytes]", gzip.GzipFile(fileobj=packed))
    elif magic == b"\x28\xb5\x2f\xfd":
        opened = cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(packed))
    size = 0
    try:
        while data := opened.read(256 * 1024):
            size += len(data)
            if size > most:
                raise NotFetched("it is too large.")
            into.write(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        raise NotFetched("one of its layers cannot be unpacked.") from None
    return size
