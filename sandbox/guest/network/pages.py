"""Pages of a package index (PEP 503, 691), with the addresses of their files led here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
LINK = re.compile(r"""(<a\b[^>]*?\bhref\s*=\s*)(["'])(.*?)\2""", re.IGNORECASE | re.DOTALL)


def rewrite_page(body: bytes, kind: str, url: str, secret: bytes) -> bytes:
    """The page with local addresses, which only `secret` makes.

    Raises `ValueError` for one that cannot be read.
    """
    if "json" not in kind:
        return rewrite_html(body.decode("utf-8", "replace"), url, secret).encode()
    page: dict[str, Any] = json.loads(body)
    for file in page.get("files", ()):
        hashes: dict[str, str] = file.get("hashes") or {}
        file["url"] = local_address(urljoin(url, file["url"]), hashes.get("sha256") or "", secret)
    return json.dumps(page).encode()


def rewrite_html(text: str, url: str, secret: bytes) -> str:
    def replace(match: re.Match[str]) -> str:
        address, fragment = urldefrag(urljoin(url, html.unescape(match[3])))
        sha = fragment.partition("sha256=")[2].partition("&")[0]
        local = local_address(address, sha, secret) + (f"#{fragment}" if fragment else "")
        return f"{match[1]}{match[2]}{html.escape(local)}{match[2]}"

    return LINK.sub(replace, text)


def local_address(address: str, sha256: str, secret: bytes) -> str:
    """Where the cache serves a file: its address and hash are in the path, its name comes last."""
    sha256 = sha256 if re.fullmatch(r"[0-9a-f]{64}", sha256) else ""
    token = base64.urlsafe_b64encode(
        json.dumps([address, sha256, seal(address, sha256, secret)]).encode()
    ).decode()
    name = unquote(urlsplit(address).path.rpartition("/")[2]) or "file"
    return f"/files/{token.rstrip('=')}/{name}"


def seal(address: str, sha256: str, secret: bytes) -> str:
    """What shows that a page of the index named an address with this hash."""
    return hmac.digest(secret, f"{sha256} {address}".encode(), hashlib.sha256).hex()


def read_address(path: str, secret: bytes) -> tuple[str, str]:
    """Address and hash of a file that is requested by `path`; the inverse of `local_address`.

    The metadata of a wheel (PEP 658) has its name and `.metadata`, and no hash here.
    Raises `ValueError` for a path of another form, or that no page named.
    """
    match = re.fullmatch(r"/files/([\w-]{1,8000})=*/([^/]{1,500})", unquote(path))
    if not match:
        raise ValueError(path)
    token = match[1] + "=" * (-len(match[1]) % 4)
    address, sha256, given = map(str, json.loads(base64.urlsafe_b64decode(token)))
    if not hmac.compare_digest(given, seal(address, sha256, secret)):
        raise ValueError(path)
    own = urlsplit(address).path.rpartition("/")[2]
    if match[2].endswith(".metadata") and not own.endswith(".metadata"):
        return address + ".metadata", ""
    return address, sha256 if re.fullmatch(r"[0-9a-f]{64}", sha256) else ""
