"""Git's smart HTTP protocol, by `git http-backend`, with a token as the password."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from anyio import CancelScope
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from capuchin_demo.hub.faults import Refusal
from capuchin_demo.hub.git_repository import git_binary, git_environment, run_git
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.pull_actions import announce_ref_changes
from capuchin_demo.hub.rest_router import check_installation
from capuchin_demo.hub.rules import Violation, find_violation
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import Token
from pipeline.codebase.git import kill_session

SERVICES = ("info/refs", "git-upload-pack", "git-receive-pack")
"""The smart protocol only: other paths of the repository cannot be requested."""


@dataclass
class GitRequest:
    """A git request that passed authentication."""

    repo: Repo
    token: Token | None
    service: str
    writes: bool


RESULT = "application/x-git-receive-pack-result"


@dataclass
class Push:
    """What a client wants to set, and the pack that it sends.

    https://git-scm.com/docs/gitprotocol-pack (pushing data to a server)
    """

    refs: dict[str, str]
    pack: bytes

    def decline(self, broken: Sequence[Violation]) -> bytes:
        """The answer that refuses every ref, with lines that git shows after `remote:`."""
        shown = b"".join(
            _packet(b"\x02" + line.encode() + b"\n") for one in broken for line in one.lines
        )
        refused = b"".join(_packet(f"ng {ref} {broken[0].reason}\n".encode()) for ref in self.refs)
        report = _packet(b"unpack ok\n") + refused + b"0000"
        return shown + _packet(b"\x01" + report) + b"0000"


def parse_push(body: bytes) -> Push:
    """The commands and the pack of a request to git-receive-pack."""
    refs: dict[str, str] = {}
    at = 0
    while (length := int(body[at : at + 4] or b"0", 16)) >= 4:
        words = body[at + 4 : at + length].split(b"\0")[0].decode().split()
        if len(words) == 3:  # others say where the client's history ends
            refs[words[2]] = words[1]
        at += length
    return Push(refs, body[at + 4 :])


def _packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def _find_violations(
    repo: Repo, token: Token, push: Push, before: dict[str, str]
) -> list[Violation]:
    """Look at the pushed commits before git accepts them; it does not mind them being there."""
    if push.pack:
        run_git(repo.git.path, "unpack-objects", "-q", stdin=push.pack)
    found = (
        find_violation(repo, token, ref, before.get(ref), new) for ref, new in push.refs.items()
    )
    return [one for one in found if one is not None]


class GitRouter:
    """Acts like a GitHub Enterprise Server in private mode: every request needs a token."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def handle(self, request: Request) -> Response:
        """Handle one git request."""
        token = self._find_token(request)
        try:
            response = await self._serve(request, token)
        except Refusal as refusal:
            headers = dict(refusal.headers)
            if refusal.status == 401:
                headers["www-authenticate"] = 'Basic realm="GitHub"'
            response = Response(refusal.message, refusal.status, headers, "text/plain")
        except ClientDisconnect:
            response = Response("The client hung up.", 400)
        self._state.record("git", request, token, response.status_code, path=request.url.path)
        return response

    async def _serve(self, request: Request, token: Token | None) -> Response:
        name = f"{request.path_params['owner']}/{request.path_params['repo']}"
        if moved := self._state.find_moved(name):
            query = f"?{request.url.query}" if request.url.query else ""
            place = f"{moved.page_url}.git/{request.path_params['service']}{query}"
            return Response(None, 301, {"location": place})
        git_request = self._authorize(request, token)
        async with self._state.faults.apply(request.method, request.url.path):
            if git_request.writes and request.method == "POST":
                return await self._receive_push(request, git_request)
            return await self._run_backend(request, git_request)

    def _authorize(self, request: Request, token: Token | None) -> GitRequest:
        service = str(request.path_params["service"])
        name = f"{request.path_params['owner']}/{request.path_params['repo']}"
        if token is None and self._state.private_mode:
            raise Refusal(401, "Repository not found." if service not in SERVICES else
                          "Authentication required")  # fmt: skip
        repo = self._state.find_repo(name)
        writes = "git-receive-pack" in (service, request.query_params.get("service"))
        if token is None:
            if repo is None or repo.private or writes or service not in SERVICES:
                raise Refusal(401, "Authentication required")
            return GitRequest(repo, None, service, writes)
        if repo is None or service not in SERVICES or not token.can_see(repo):
            raise Refusal(404, "Repository not found.")
        if not token.is_allowed(repo, "contents:write" if writes else "contents:read"):
            raise Refusal(403, "Write access to repository not granted.")
        check_installation(token, writes=writes and service == "git-receive-pack")
        if writes and repo.archived:
            raise Refusal(403, "This repository was archived so it is read-only.")
        return GitRequest(repo, token, service, writes)

    def _find_token(self, request: Request) -> Token | None:
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._state.tokens.find(value.strip())
        if scheme.lower() != "basic":
            return None
        try:
            text = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        name, _, password = text.partition(":")
        return self._state.tokens.find(password) or self._state.tokens.find(name)

    async def _receive_push(self, request: Request, git_request: GitRequest) -> Response:
        """Respond only after the pull requests are updated and the webhooks are on their way."""
        git = git_request.repo.git
        assert git_request.token is not None
        before = await asyncio.to_thread(git.list_refs, "")
        push = parse_push(await request.body())
        broken = await asyncio.to_thread(
            _find_violations, git_request.repo, git_request.token, push, before
        )
        if broken:
            return Response(push.decline(broken), 200, None, RESULT)
        streamed = await self._run_backend(request, git_request)
        body = b"".join([chunk async for chunk in streamed.chunks])
        after = await asyncio.to_thread(git.list_refs, "")
        await announce_ref_changes(
            self._state, git_request.repo, before, after, git_request.token.actor
        )
        return Response(body, streamed.status_code, dict(streamed.headers))

    async def _run_backend(self, request: Request, git_request: GitRequest) -> _BackendResponse:
        """Run git with the whole body: http-backend loops forever if a body is cut off."""
        body = await request.body()
        process = await asyncio.create_subprocess_exec(
            git_binary(),
            "http-backend",
            env=_cgi_environment(request, git_request, len(body)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        feeding = asyncio.get_running_loop().create_task(_feed(body, process))
        assert process.stdout is not None
        status, headers = await _read_head(process.stdout)
        return _BackendResponse(process, feeding, status, headers)


def _cgi_environment(request: Request, git_request: GitRequest, length: int) -> dict[str, str]:
    """The CGI variables. The path contains a number and a word of `SERVICES`, not the URL."""
    path = git_request.repo.git.path
    passed = {
        "HTTP_CONTENT_ENCODING": "content-encoding",
        "HTTP_GIT_PROTOCOL": "git-protocol",
        "GIT_PROTOCOL": "git-protocol",
        "CONTENT_TYPE": "content-type",
    }
    found = {name: request.headers.get(header, "") for name, header in passed.items()}
    return git_environment(
        GIT_PROJECT_ROOT=str(path.parent),
        GIT_HTTP_EXPORT_ALL="1",
        PATH_INFO=f"/{path.name}/{git_request.service}",
        REQUEST_METHOD=request.method,
        QUERY_STRING=request.url.query,
        REMOTE_USER=git_request.token.actor.login if git_request.token else "",
        REMOTE_ADDR="127.0.0.1",
        CONTENT_LENGTH=str(length),
        **{name: value for name, value in found.items() if value},
    )


async def _feed(body: bytes, process: asyncio.subprocess.Process) -> None:
    """Write the body to git, which may stop reading early."""
    assert process.stdin is not None
    try:
        process.stdin.write(body)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        process.stdin.close()


async def _read_head(stdout: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status, headers = 200, dict[str, str]()
    while line := (await stdout.readline()).decode("latin-1").strip():
        name, _, value = line.partition(": ")
        if name.lower() == "status":
            status = int(value.split()[0])
        else:
            headers[name.lower()] = value
    return status, headers


async def _stream_body(
    process: asyncio.subprocess.Process, feeding: asyncio.Task[None]
) -> AsyncGenerator[bytes, None]:
    assert process.stdout is not None
    try:
        while chunk := await process.stdout.read(65_536):
            yield chunk
        await feeding
        await process.wait()
    finally:
        await _end(process, feeding)


async def _end(process: asyncio.subprocess.Process, feeding: asyncio.Task[None]) -> None:
    feeding.cancel()
    with CancelScope(shield=True):  # a client that hangs up cancels every further wait
        await kill_session(process)  # git starts http-backend, which starts receive-pack


class _BackendResponse(StreamingResponse):
    """Ends git also where the client hangs up before the first byte of the body is read."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        feeding: asyncio.Task[None],
        status: int,
        headers: dict[str, str],
    ) -> None:
        self.chunks = _stream_body(process, feeding)
        super().__init__(self.chunks, status, headers)
        self._git = (process, feeding)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await _end(*self._git)
