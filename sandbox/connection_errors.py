"""Why no connection was made, as a clause for people."""

import errno
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final, cast


def connection_cause(error: BaseException) -> str:
    """Why a connection was not made or broke; "" if nothing is known.

    Every client wraps its cause: all that led to `error` is looked at.
    """
    chain = list(_causes(error))
    found = (clause for look in _LOOKS for one in chain if (clause := look(one)))
    return next(found, "")


def is_untrusted(error: BaseException) -> bool:
    """Whether a certificate was not trusted, which waiting does not mend."""
    return any(map(_certificate, _causes(error)))


def is_nobody_there(error: BaseException) -> bool:
    """Whether the host is unknown or nothing listens there: its address is likely to be wrong."""
    return any(isinstance(one, socket.gaierror) or _is_refused(one) for one in _causes(error))


def _is_refused(error: BaseException) -> bool:
    """asyncio joins the errors of several addresses, such as those of localhost, to one text, and
    redis-py may raise its own again without their cause."""
    told = re.search(rf"\b(?:Errno|Error) {errno.ECONNREFUSED}\b", str(error))
    return told is not None or isinstance(error, ConnectionRefusedError)


def _certificate(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message or error})"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"its certificate is not trusted ({_line(error)})"
    return ""


def _security(error: BaseException) -> str:
    return f"TLS failed ({error.reason or error})" if isinstance(error, ssl.SSLError) else ""


def _name(error: BaseException) -> str:
    return "its name is not known" if isinstance(error, socket.gaierror) else ""


def _proxy(error: BaseException) -> str:
    is_proxys = {"ProxyError", "SOCKSError", "ProxyConnectionError"} & _kinds(error)
    return f"the proxy does not let us through ({_line(error)})" if is_proxys else ""


def _system(error: BaseException) -> str:
    if _is_refused(error):
        return "nothing listens there (connection refused)"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "the connection was cut"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, TimeoutError):
        return error.strerror.lower()
    return ""


def _kind(error: BaseException) -> str:
    if {"TimeoutException", "TimeoutError", "Timeout"} & _kinds(error):
        return "no answer came in time"
    cut = {"RemoteProtocolError", "IncompleteRead", "ReadError", "WriteError"}
    return "the connection was cut" if cut & _kinds(error) else ""


_LOOKS: Final[tuple[Callable[[BaseException], str], ...]] = (
    *(_certificate, _security, _name, _proxy, _system, _kind),
)
"""What says most comes first."""


def _kinds(error: BaseException) -> set[str]:
    """The names of its classes: each client brings its own copy of them."""
    return {kind.__name__ for kind in type(error).__mro__}


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what led to it, also where several were tried."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left and len(seen) < 30:
        one = left.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", one).exceptions
        left += [arg for arg in one.args if isinstance(arg, BaseException)]
