"""Git's smart HTTP protocol, by `git http-backend`, with a token as the password."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from anyio import CancelScope
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from capuchin_demo.hub.faults import Refusal
from capuchin_demo.hub.git_repository import git_binary, git_environment
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.pull_actions import announce_ref_changes
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
        before = await asyncio.to_thread(git.list_refs, "")
        streamed = await self._run_backend(request, git_request)
        body = b"".join([chunk async for chunk in streamed.chunks])
        after = await asyncio.to_thread(git.list_refs, "")
        assert git_request.token is not None
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
