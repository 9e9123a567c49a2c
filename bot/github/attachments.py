"""Pictures and files that people attach to an issue, fetched from GitHub alone."""

import base64
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import httpx

from bot.github.http import is_github_com, ssl_context
from bot.visible_text import render_page
from pipeline.data.types import Picture

MOST_PICTURES: Final = 8
MOST_FILES: Final = 4
MAX_BYTES: Final = 3_000_000
"""Of one picture or file. Anthropic takes 5 MB in base64."""
_TIMEOUT_SECONDS: Final = 20.0
_ASSET_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ASSET = re.compile(rf"/user-attachments/assets/({_ASSET_ID.pattern})")
_FILE = re.compile(r"/(?:user-attachments|[\w.-]+/[\w.-]+)/files/\d+/([^/?#]+)")
_STORAGE = re.compile(
    r"(?:[\w-]+\.)+githubusercontent\.com|github-production-[\w-]+\.s3\.amazonaws\.com"
)
"""Where github.com keeps what people attach."""


class Attached(NamedTuple):
    """What a text shows besides words."""

    pictures: tuple[str, ...]
    """Addresses, in the order of their `[image]` marks."""
    files: tuple[str, ...]


def find_attached(text: str) -> Attached:
    """The pictures and attached files of GitHub's Markdown `text`.

    A file counts whose link shows its name, as GitHub writes it: what nobody sees is not attached.
    """
    page = render_page(text, {"img": {"src", "width", "height"}, "a": {"href"}})
    reader = _Addresses(page)
    files = (
        url
        for url, shown in reader.links
        if _FILE.fullmatch(urlsplit(url).path) and _letters(shown) == _letters(file_name(url))
    )
    return Attached(tuple(reader.pictures), tuple(dict.fromkeys(files)))


def _letters(name: str) -> str:
    """`name` without what GitHub replaces in an address."""
    return re.sub(r"[\W_]", "", name).lower()


def file_name(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


class _Addresses(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self.originals: dict[str, str] = {}
        """The originals by the address in the Markdown, that of GitHub's proxy."""
        self.links: list[tuple[str, str]] = []
        """Each with the words that it shows."""
        self._in_link = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "img":
            sizes = [values.get("width") or "", values.get("height") or ""]
            tiny = any(re.fullmatch(r"0*(\d|1[0-5])(\.\d*)?(px)?", size.strip()) for size in sizes)
            self.pictures.append("" if tiny else values.get("src") or "")
            if original := values.get("data-canonical-src"):
                self.originals[original] = self.pictures[-1]
        elif tag == "a":
            self.links.append((values.get("href") or "", ""))
            self._in_link = True

    def handle_data(self, data: str) -> None:
        if self._in_link:
            url, shown = self.links[-1]
            self.links[-1] = (url, shown + data)

    def handle_endtag(self, tag: str) -> None:
        self._in_link &= tag != "a"


def find_signed(body_html: str) -> dict[str, str]:
    """Addresses that GitHub gives who may see the issue, by the id of an attached picture or the
    address of one elsewhere.

    Pictures of private repositories cannot be fetched in any other way, and those from elsewhere
    only through GitHub's proxy; see `bodyHTML` in docs.github.com/graphql/reference/objects#issue.
    """
    reader = _Addresses(body_html)
    attached = {found[0]: url for url in reader.pictures if (found := _ASSET_ID.search(url))}
    return {**reader.originals, **attached}


class AttachmentReader:
    def __init__(self, github_url: str) -> None:
        self._root = github_url.rstrip("/")
        # Not compressed: a small answer could become a huge one.
        self._client = httpx.AsyncClient(
            verify=ssl_context(), timeout=_TIMEOUT_SECONDS, headers={"Accept-Encoding": "identity"}
        )

    async def __aenter__(self) -> "AttachmentReader":
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.__aexit__()

    async def fetch_picture(self, url: str, signed: Mapping[str, str]) -> Picture | None:
        """The picture at `url`; None if it is not GitHub's, too large, no picture, or missing."""
        asset = _ASSET.search(url)
        named = signed.get(asset[1] if asset else url)
        content = await self._fetch(named or url, given=named is not None)
        kind = _picture_type(content) if content else None
        if content is None or kind is None:
            return None
        return Picture(media_type=kind, base64=base64.b64encode(content).decode())

    async def fetch_text(self, url: str) -> str | None:
        """As `fetch_picture`, for a file of text."""
        content = await self._fetch(url)
        if content is None or b"\0" in content:
            return None
        try:
            return content.decode()
        except UnicodeDecodeError:
            return None

    async def _fetch(self, url: str, *, given: bool = False) -> bytes | None:
        """`given` is an address that GitHub itself gave."""
        for led in range(4):  # an address, and up to three that GitHub leads to
            if not (self._is_attached(url) or ((led or given) and self._is_githubs(url))):
                return None
            try:
                async with self._client.stream("GET", url) as answer:
                    if answer.is_redirect:
                        url = urljoin(url, answer.headers["location"])
                        continue
                    return await _read(answer) if answer.status_code == 200 else None
            except (httpx.HTTPError, httpx.InvalidURL):
                return None
        return None

    def _is_attached(self, url: str) -> bool:
        """Whether only people who attach something to an issue decide what is at `url`."""
        try:
            path = urlsplit(url).path
        except ValueError:
            return False
        own = url.startswith(f"{self._root}/")
        return own and bool(_ASSET.fullmatch(path) or _FILE.fullmatch(path))

    def _is_githubs(self, url: str) -> bool:
        """Whether GitHub keeps attached files at `url`."""
        try:
            parts, own = urlsplit(url), urlsplit(self._root)
            host, same_port = parts.hostname or "", parts.port == own.port
        except ValueError:
            return False
        if is_github_com(self._root):
            return parts.scheme == "https" and _STORAGE.fullmatch(host) is not None
        return parts.scheme == own.scheme and same_port and host.endswith(f".{own.hostname}")


async def _read(answer: httpx.Response) -> bytes | None:
    content = bytearray()
    async for part in answer.aiter_raw():
        content += part
        if len(content) > MAX_BYTES:
            return None
    return bytes(content)


def _picture_type(
    content: bytes,
) -> Literal["image/png", "image/jpeg", "image/gif", "image/webp"] | None:
    """The kind that the first bytes say, which services check."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None
