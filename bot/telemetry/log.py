"""The log of `capuchin serve` and `capuchin worker`: one line per record on standard error.

Records are the standard library's. `structlog.contextvars` adds what is bound where work begins:
`run`, `repository` and `issue` (worker), `delivery` (server and worker), `stage` (pipeline), and
`status`, `failure` and `cause` on the line of a run's end.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import structlog
from pydantic import SecretStr
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from bot.cli.terminal import printable
from bot.redis_url import list_redis_passwords
from bot.settings import Settings
from sandbox.guest.spellings import SecretFinder

CHATTY_LOGGERS: Final = ("arq", "httpx", "httpx2")
"""Libraries that log every call."""
OUR_LOGGERS: Final = ("bot", "pipeline", "sandbox")
CONTEXT: Final = ("run", "repository", "issue", "delivery", "stage", "status", "failure", "cause")
"""What may be bound, in the order of the text format."""
REDACTED: Final = "[redacted]"
MIN_SECRET: Final = 8
"""Shorter values are not redacted: they would also match ordinary words."""


def configure_logging(settings: Settings) -> None:
    """Write all records to standard error, as `settings.log_format` says and without secrets."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(build_formatter(settings.log_format, list_secrets(settings)))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for ours in OUR_LOGGERS:  # the libraries' debug records hold what is sent
        logging.getLogger(ours).setLevel(settings.log_level.upper())
    for chatty in CHATTY_LOGGERS:
        logging.getLogger(chatty).setLevel(logging.WARNING)


def build_formatter(
    log_format: Literal["text", "json"], secrets: Sequence[str] = ()
) -> logging.Formatter:
    """A formatter that puts each record on one line; in text, a traceback follows its line."""
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
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
    """The values of the settings that no log may contain."""
    found = [value for _, value in settings if isinstance(value, SecretStr)]
    found += settings.build_secrets.values()
    lines = [line for secret in found for line in secret.get_secret_value().splitlines()]
    passwords = list_redis_passwords(settings.redis_url)
    return [each for each in (*lines, *passwords) if len(each) >= MIN_SECRET]


class _RedactingFormatter(ProcessorFormatter):
    """Replaces secrets in the finished line, wherever they come from."""

    def __init__(
        self,
        secrets: Sequence[str],
        *,
        processors: Sequence[Processor],
        foreign_pre_chain: Sequence[Processor],
    ) -> None:
        super().__init__(processors=processors, foreign_pre_chain=foreign_pre_chain)
        self._finder = SecretFinder({form for each in secrets for form in _spellings(each)})

    def format(self, record: logging.LogRecord) -> str:
        return self._finder.redact(super().format(record), REDACTED)


def _spellings(secret: str) -> Iterable[str]:
    return secret, json.dumps(secret)[1:-1], printable(secret)


def _render_text(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    time, level, text = event.pop("timestamp"), event.pop("level"), str(event.pop("event"))
    traceback = event.pop("exception", "")
    context = "".join(f" {key}={event[key]}" for key in CONTEXT if key in event)
    line = printable(f"{time} {level.upper()} {text}{context}", one_line=True)
    return f"{line}\n{printable(traceback)}" if traceback else line


def _render_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    del logger, method
    return json.dumps(event, default=str)  # ASCII: control characters are escaped
