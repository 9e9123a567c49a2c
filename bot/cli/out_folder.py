"""The folder that `--out` names: a run goes on in it only where this user's Capuchin wrote it.

A clone can bring a folder of that name, with a finished run in it, or links that lead elsewhere.
Each document has a seal (HMAC-SHA-256), whose key lies in the user's own state folder; a document
without one counts as absent.
"""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from bot.cli.run_input import Start, WrongUsage
from pipeline.store import DirStore

_MARK = ".capuchin"
"""The run's number, then the seal of each document, one a line."""


@contextmanager
def hold_folder(out: Path) -> Generator[None]:
    """Keep other processes from working in `out`, which is removed in the end if it stays empty.

    Raises:
        WrongUsage: another works there, or it is no folder that can be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise WrongUsage(f"{out}: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WrongUsage(
                f"Another capuchin works in {out}: wait for its end, or choose another --out."
            ) from None
        try:
            yield
        finally:
            with suppress(OSError):  # results lie there
                out.rmdir()
    finally:
        os.close(held)


def load_secret(state: Path) -> bytes:
    """The secret of this user, made if there is none. Raises `OSError`."""
    path = state / "secret"
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(fd, "wb") as file:
        file.write(secret := secrets.token_bytes(32))
    return secret


class SealedStore(DirStore):
    """The store `out/run`, whose documents count only with a seal."""

    def __init__(self, out: Path, secret: bytes) -> None:
        super().__init__(out / "run")
        self._mark = out / _MARK
        self._secret = secret

    def is_ours(self) -> bool:
        """Whether this user's Capuchin began the run that lies here."""
        number, _, seal = self._lines()[0].partition(" ")
        return hmac.compare_digest(seal, self._seal(number))

    def read(self, key: str) -> bytes | None:
        data = super().read(key)
        lines = self._lines()
        is_sealed = data is not None and self._seal(lines[0], key, data) in lines[1:]
        return data if is_sealed else None

    def write(self, key: str, data: bytes) -> None:
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        if not self._mark.exists():
            number = secrets.token_hex(16)
            self._mark.write_text(f"{number} {self._seal(number)}\n", "ascii")
        seal = self._seal(self._lines()[0], key, data)
        with self._mark.open("a", encoding="ascii") as file:
            file.write(f"{seal}\n")
        super().write(key, data)

    def scope_of(self, start: Start) -> str:
        """What shares environments with a run: this user's runs at the same commit of the same
        repository. A checkout may be anybody's, whatever lay at its path before."""
        return self._seal(f"{start.repository} {start.base_commit}")

    def _lines(self) -> list[str]:
        try:
            return self._mark.read_text("ascii", "replace").splitlines() or [""]
        except FileNotFoundError:
            return [""]

    def _seal(self, first: str, key: str = "", data: bytes = b"") -> str:
        """The seal of a run's first line alone, or of a document in it; none fits another run."""
        text = f"{first}\0{key}\0".encode() + hashlib.sha256(data).digest()
        return hmac.digest(self._secret, text, "sha256").hex()


def open_store(out: Path, state: Path) -> SealedStore:
    """The store of the run in `out`. Blocking.

    Raises:
        WrongUsage: something lies there that this user's Capuchin did not write, or it cannot be
            read.
    """
    try:
        store = SealedStore(out, load_secret(state))
        if not out.exists() or not any(out.iterdir()):
            return store
        if not store.is_ours() or any(path.is_symlink() for path in out.rglob("*")):
            raise WrongUsage(
                f"{out} holds files that Capuchin did not write for you, so it neither continues "
                "nor overwrites them: choose another --out."
            )
    except OSError as error:
        raise WrongUsage(f"Cannot use {error.filename or out}: {error.strerror}.") from None
    return store
