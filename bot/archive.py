"""An object store that speaks S3's protocol, by obstore (the extra `s3`).

Address, region and keys of the store come from the standard variables (`AWS_ENDPOINT_URL`,
`AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`) or from the machine's role. Nothing
rests on conditional writes, which not every store has.
Source: docs.rs/object_store, `AmazonS3Builder`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from bot.errors import BotError
from bot.settings import SettingsError

if TYPE_CHECKING:
    from obstore.store import S3Store

REQUEST_SECONDS: Final = 60.0
RETRIES: Final = 3
MOST_BYTES: Final = 1024**3
"""Of one object that is read: a bundle is far smaller, and is held in memory."""


class ArchiveUnavailable(BotError):
    """The object store does not answer, or refuses us; `str(error)` says why."""


class ObjectStore:
    """The objects below one prefix of a bucket."""

    def __init__(self, url: str) -> None:
        """`url` is `s3://BUCKET/PREFIX`.

        Raises:
            SettingsError: the extra `s3` is not installed, or `url` cannot be used.
        """
        try:
            from obstore.exceptions import BaseError
            from obstore.store import S3Store
        except ImportError:
            raise SettingsError(
                "CAPUCHIN_ARCHIVE needs a further package: pip install 'capuchin-bot[s3]'."
            ) from None
        self.url = url.rstrip("/")
        try:
            self._store: S3Store = S3Store.from_url(
                self.url,
                # Without TLS only where the operator's own address says so.
                client_options={"allow_http": True, "timeout": timedelta(seconds=REQUEST_SECONDS)},
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=30)},
            )
        except (BaseError, ValueError) as error:
            raise SettingsError(f"CAPUCHIN_ARCHIVE: {_cause(error)}") from None

    async def put(self, name: str, data: bytes) -> None:
        """Write an object, over what is there. Raises `ArchiveUnavailable`."""
        import obstore

        with self._translate_errors():
            await obstore.put_async(self._store, name, data)

    async def get(self, name: str) -> bytes | None:
        """Read an object; None if there is none.

        Raises:
            ArchiveUnavailable: the store fails, or the object has more than `MOST_BYTES`.
        """
        import obstore

        with self._translate_errors():
            try:
                found = await obstore.get_async(self._store, name)
            except FileNotFoundError:
                return None
            if found.meta["size"] > MOST_BYTES:
                raise ArchiveUnavailable(f"{self.url}/{name} is too large to be read.")
            return bytes(await found.bytes_async())

    async def delete(self, name: str) -> None:
        """Delete an object, if it is there. Raises `ArchiveUnavailable`."""
        import obstore

        with self._translate_errors():
            await obstore.delete_async(self._store, name)

    async def check(self) -> None:
        """Write, read and delete an object of its own. Raises `ArchiveUnavailable`."""
        name, data = f"check-{token_hex(8)}", token_hex(8).encode()
        await self.put(name, data)
        found = await self.get(name)
        await self.delete(name)
        if found != data:
            raise ArchiveUnavailable(f"{self.url} does not give back what was written to it.")

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            raise ArchiveUnavailable(f"{self.url}: there is no such bucket.") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise ArchiveUnavailable(f"{self.url} refuses the keys: {_cause(error)}") from error
        except (BaseError, OSError, ValueError) as error:
            raise ArchiveUnavailable(f"{self.url} does not answer: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The first line, which names no key."""
    return str(error).strip().partition("\n")[0][:300]
