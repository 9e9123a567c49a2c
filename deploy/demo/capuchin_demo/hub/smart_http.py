"""Git's smart HTTP protocol, by `git http-backend`, with a token as the password."""

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass

from anyio import CancelScope
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from capuchin_demo.hub.git_repository import git_binary, git_environment
from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.pull_actions import announce_ref_changes
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import Token
from pipeline.codebase.git import kill_session

SERVICES = ("info/refs", "git-upload-pack", "git-receive-pack")
LARGE_FILES = "info/lfs/objects/"
"""The smart protocol and that of Git LFS only: no other path of a repository can be requested."""


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
        try:
            return await self.serve(request, self.find_token(request))
        except Refusal as refusal:
            headers = dict(refusal.headers)
            if refusal.status == 401:
                headers["www-authenticate"] = 'Basic realm="GitHub"'
            return Response(refusal.message, refusal.status, headers, "text/plain")
        except ClientDisconnect:
            return Response("The client hung up.", 400)

    async def serve(self, request: Request, token: Token | None) -> Response:
        """The response of git.

        Raises:
            Refusal: the token may not (401, 403, 404).
            ClientDisconnect: the request is cut off.
        """
        asked = self.authorize(request, token)
        if asked.service.startswith(LARGE_FILES):
            return await serve_large_files(request, asked)
        if asked.token is not None and asked.writes and request.method == "POST":
            return await self.receive_push(request, asked, asked.token)
        return await run_backend(request, asked)

    def authorize(self, request: Request, token: Token | None) -> GitRequest:
        """What a request asks of which repository.

        Raises:
            Refusal: the token may not (401, 403, 404).
        """
        if token is None:
            raise Refusal(401, "Authentication required")
        asked = self.read_request(request, token)
        if asked is None or not token.can_see(asked.repo):
            raise Refusal(404, "Repository not found.")
        if not token.is_allowed(asked.repo, "contents:write" if asked.writes else "contents:read"):
            raise Refusal(403, "Write access to repository not granted.")
        return asked

    def read_request(self, request: Request, token: Token | None) -> GitRequest | None:
        """None: there is no such repository or service."""
        service = str(request.path_params["service"])
        name = f"{request.path_params['owner']}/{request.path_params['repo']}"
        repo = self._state.find_repo(name)
        if repo is None or not (service in SERVICES or service.startswith(LARGE_FILES)):
            return None
        writes = "git-receive-pack" in (service, request.query_params.get("service"))
        return GitRequest(repo, token, service, writes)

    def find_token(self, request: Request) -> Token | None:
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

    async def receive_push(self, request: Request, asked: GitRequest, token: Token) -> Response:
        """Respond only after the pull requests are updated and the webhooks are on their way."""
        git = asked.repo.git
        before = await asyncio.to_thread(git.list_refs, "")
        response = await run_backend(request, asked)
        after = await asyncio.to_thread(git.list_refs, "")
        await announce_ref_changes(self._state, asked.repo, before, after, token.actor)
        return response


async def serve_large_files(request: Request, asked: GitRequest) -> Response:
    """The batch API of Git LFS, and each file."""
    held, name = asked.repo.large_files, asked.service.removeprefix(LARGE_FILES)
    if name != "batch":
        return Response(held[name]) if name in held else Response(status_code=404)
    header = {"Authorization": request.headers["authorization"]}
    place = f"{asked.repo.page_url}.git/{LARGE_FILES}"
    wanted = [one["oid"] for one in json.loads(await request.body())["objects"]]
    actions = {oid: {"download": {"href": f"{place}{oid}", "header": header}} for oid in held}
    objects = [{"oid": oid, "actions": actions[oid]} for oid in wanted if oid in held]
    return JSONResponse({"transfer": "basic", "objects": objects})


async def run_backend(request: Request, asked: GitRequest) -> Response:
    """Run git with the whole body: http-backend loops forever if a body is cut off."""
    body = await request.body()
    process = await asyncio.create_subprocess_exec(
        git_binary(),
        "http-backend",
        env=_cgi_environment(request, asked, len(body)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate(body)
    finally:
        with CancelScope(shield=True):
            await kill_session(process)  # git starts http-backend, which starts receive-pack
    head, _, content = said.partition(b"\r\n\r\n")
    lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n"))
    headers = {name.lower(): value for name, _, value in lines}
    status = int(headers.pop("status", "200").split()[0])
    return Response(content, status, headers)


def _cgi_environment(request: Request, asked: GitRequest, length: int) -> dict[str, str]:
    """The CGI variables. The path contains a number and a word of `SERVICES`, not the URL."""
    path = asked.repo.git.path
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
        PATH_INFO=f"/{path.name}/{asked.service}",
        REQUEST_METHOD=request.method,
        QUERY_STRING=request.url.query,
        REMOTE_USER=asked.token.actor.login if asked.token else "",
        REMOTE_ADDR="127.0.0.1",
        CONTENT_LENGTH=str(length),
        **{name: value for name, value in found.items() if value},
    )
