"""The log: one line a record, calls and stages in it, and a blocked event loop.

Records are the standard library's. `structlog.contextvars` adds what is bound where work begins:
`run`, `repository`, `issue` and `by` (worker), `delivery` (server and worker), `stage` (pipeline),
and `status`, `failure` and `cause` on the line of a run's end. Lines of a service that does not
answer have `waits_for`, `why` and `wait` (seconds) as keys of their JSON; in text they are words.
"""

import asyncio
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Final, Literal, Self

import structlog
from pydantic import SecretStr
from structlog.contextvars import bind_contextvars, bound_contextvars
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from bot.safe_text import printable
from bot.settings import Settings, list_redis_passwords
from sandbox.guest.spellings import SecretFinder
from sandbox.observation import Event, Kind, observe

logger = logging.getLogger(__name__)


@contextmanager
def log_calls(event: Event) -> Generator[None]:
    try:
        yield
    finally:
        is_call = event.kind in (Kind.MODEL_CALL, Kind.GITHUB_CALL, Kind.EXECUTION)
        if is_call and logger.isEnabledFor(logging.DEBUG):
            facts = " ".join(f"{name}={value}" for name, value in event.facts.items())
            end = f" error={event.error}" if event.error else ""
            logger.debug("%s: %s%s seconds=%.3f", event.kind, facts, end, event.seconds)


class Stages:
    """A context manager: the first stage begins with the block, and the last ends with it."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._current = ""
        self._bound = ExitStack()
        self._event = ExitStack()

    def __enter__(self) -> Self:
        self._bound.enter_context(bound_contextvars(stage=self._first))
        self.begin(self._first)
        return self

    def begin(self, stage: str) -> None:
        """End the stage before, unless it is this one."""
        bind_contextvars(stage=stage)
        if stage != self._current:
            self._event.close()
            self._current = stage
            self._event.enter_context(observe(Kind.STAGE, stage=stage))

    def __exit__(self, *error: object) -> None:
        self._event.close()
        self._bound.close()


REDACTED: Final = "[redacted]"


def configure_logging(settings: Settings) -> None:
    """Write all records to standard error, as `settings.log_format` says and without secrets."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(build_formatter(settings.log_format, list_secrets(settings)))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for ours in ("bot", "pipeline", "sandbox"):  # libraries' debug records contain what is sent
        logging.getLogger(ours).setLevel(settings.log_level.upper())
    for chatty in ("arq", "httpx", "httpx2"):  # they log every call
        logging.getLogger(chatty).setLevel(logging.WARNING)


def build_formatter(
    log_format: Literal["text", "json"], secrets: Sequence[str] = ()
) -> logging.Formatter:
    """A formatter that puts each record on one line; in text, a traceback follows its line."""
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=("waits_for", "why", "wait")),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render = _render_text if log_format == "text" else _render_json
    return _RedactingFormatter(
        secrets,
        foreign_pre_chain=common,
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            render,
        ],
    )


def list_secrets(settings: Settings) -> list[str]:
    found = [value for _, value in settings if isinstance(value, SecretStr)]
    found += settings.build_secrets.values()
    lines = [line for secret in found for line in secret.get_secret_value().splitlines()]
    passwords = list_redis_passwords(settings.redis_url)
    # Shorter values would also match ordinary words.
    return [each for each in (*lines, *passwords) if len(each) >= 8]


class _RedactingFormatter(ProcessorFormatter):
    """Replaces secrets in the finished line."""

    def __init__(
        self,
        secrets: Sequence[str],
        *,
        processors: Sequence[Processor],
        foreign_pre_chain: Sequence[Processor],
    ) -> None:
        super().__init__(processors=processors, foreign_pre_chain=foreign_pre_chain)
        forms = {f for each in secrets for f in (each, json.dumps(each)[1:-1], printable(each))}
        self._finder = SecretFinder(forms)

    def format(self, record: logging.LogRecord) -> str:
        return self._finder.redact(super().format(record), REDACTED)


def _render_text(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    time, level, text = event.pop("timestamp"), event.pop("level"), str(event.pop("event"))
    traceback = event.pop("exception", "")
    keys = ("run", "repository", "issue", "by", "delivery", "stage", "status", "failure", "cause")
    context = "".join(f" {key}={event[key]}" for key in keys if key in event)
    line = printable(f"{time} {level.upper()} {text}{context}", one_line=True)
    return f"{line}\n{printable(traceback)}" if traceback else line


def _render_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    return json.dumps(event, default=str)  # ASCII: control characters are escaped


STALL_SECONDS: Final = 0.25


@asynccontextmanager
async def watch_loop(seconds: float = STALL_SECONDS) -> AsyncGenerator[None]:
    """While the block runs, log the loop's stack if it does not respond for `seconds`.

    A thread logs one line for each stall, and one with its duration afterwards.
    """
    loop, owner = asyncio.get_running_loop(), threading.get_ident()
    done = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(loop, owner, done, seconds), name="watchdog", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()


def _watch(
    loop: asyncio.AbstractEventLoop, owner: int, done: threading.Event, seconds: float
) -> None:
    while not done.wait(seconds / 5):
        answered = threading.Event()
        began = time.monotonic()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            return
        if answered.wait(seconds):
            continue
        frame = sys._current_frames().get(owner)  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame)[-12:]) if frame else "(no stack)"
        logger.warning("The event loop has been blocked for %.2f s:\n%s", seconds, stack)
        while not answered.wait(seconds):
            if done.is_set():
                return
        logger.warning("The event loop resumed after %.2f s.", time.monotonic() - began)
