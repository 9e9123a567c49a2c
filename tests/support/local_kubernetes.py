"""A Kubernetes of one node in one process: real pods are containers of this machine's Docker.

A stand-in for the API server and the kubelet: holds state, checks every manifest against
Kubernetes' own schemas, asks a role whether a request is allowed, and speaks the real attach
protocol to the real client. What it cannot show is what only a cluster can: scheduling, user
namespaces of pods, network policies.
"""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import uvicorn
import yaml
from docker.errors import APIError, NotFound
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sandbox.docker.container import AttachedStream, seccomp_profile, warm_profile
from sandbox.docker.docker_client import connect
from sandbox.execution.jobs import STDOUT, DeadlinePassed
from sandbox.kubernetes.pod import SECCOMP_PROFILE
from tests.support.kubernetes_schemas import check_manifest

TOKEN = "token-of-the-service-account"
NAMESPACE = "capuchin-sandboxes"
NODE_SECONDS = 0.1
"""After how long the node hears what the server was asked."""
VERBS = {"GET": "get", "POST": "create", "DELETE": "delete"}
ROLE = Path(__file__).parents[2] / "deploy/kubernetes/rbac.yaml"
QUOTA = ROLE.with_name("quota.yaml")


class LocalCluster:
    """`with LocalCluster() as cluster`: connect with `kubeconfig(folder)`."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.refusals: list[str] = []
        self.fate: dict[str, Any] = {}
        """A status that replaces that of every pod, to see how a broken pod is reported."""
        self.rules = role_rules()
        self.most_pods = quota_of_pods()
        self._containers: dict[str, str] = {}
        self._troubles: dict[str, str] = {}
        self._guard = threading.Lock()
        self._node = ThreadPoolExecutor(4)
        self._docker = connect(None)
        paths = f"/api/v1/namespaces/{NAMESPACE}/pods"
        app = Starlette(
            routes=[
                Route("/version/", self._version),
                Route(
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    self._review,
                    methods=["POST"],
                ),
                Route(paths, self._collection, methods=["GET", "POST"]),
                Route(paths + "/{name}", self._one, methods=["GET", "DELETE"]),
                WebSocketRoute(paths + "/{name}/attach", self._attach),
            ]
        )
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="error", ws="websockets-sansio"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> "LocalCluster":
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._node.shutdown()
        for name in list(self.pods):
            self._end(name)
        self._docker.close()

    @property
    def url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def kubeconfig(self, folder: Path, *, token: str = TOKEN) -> Path:
        path = folder / "kubeconfig"
        named = {"cluster": {"server": self.url}, "name": "local"}
        user = {"user": {"token": token}, "name": "capuchin"}
        context = {"context": {"cluster": "local", "user": "capuchin"}, "name": "here"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [named],
            "users": [user],
            "contexts": [context],
            "current-context": "here",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    async def _version(self, request: Request) -> Response:
        return self._refusal(request) or JSONResponse(
            {"major": "1", "minor": "34", "gitVersion": "v1.34.0-local"} | NO_BUILD
        )

    async def _review(self, request: Request) -> Response:
        if refused := self._refusal(request):
            return refused
        asked = (await request.json())["spec"]
        what = asked["resourceAttributes"]
        part = f"/{what['subresource']}" if what.get("subresource") else ""
        allowed = self._allows(what["verb"], what["resource"] + part)
        return JSONResponse(
            {"apiVersion": "v1", "spec": asked, "status": {"allowed": allowed}}, status_code=201
        )

    async def _collection(self, request: Request) -> Response:
        verb = "list" if request.method == "GET" else "create"
        if refused := self._refusal(request, verb, "pods"):
            return refused
        if verb == "create":
            return await self._create(await request.json())
        wanted = dict(
            part.split("=")
            for part in request.query_params.get("labelSelector", "").split(",")
            if part
        )
        found = [
            await asyncio.to_thread(self._find_pod, name)
            for name, pod in list(self.pods.items())
            if wanted.items() <= pod["metadata"]["labels"].items()
        ]
        items = [pod for pod in found if pod]
        return JSONResponse({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})

    async def _create(self, pod: dict[str, Any]) -> Response:
        try:
            check_manifest(pod, "1.34")
        except jsonschema_rs.ValidationError as error:
            return problem(422, str(error))
        name = pod["metadata"]["name"]
        if len(self.pods) >= self.most_pods:
            limits = (
                f"requested: pods=1, used: pods={len(self.pods)}, limited: pods={self.most_pods}"
            )
            return problem(403, f'pods "{name}" is forbidden: exceeded quota: sandboxes, {limits}')
        pod["metadata"]["creationTimestamp"] = now()
        self.pods[name] = pod
        if not self.fate:
            self._node.submit(self._start, name, pod)
        return JSONResponse(await asyncio.to_thread(self._find_pod, name), status_code=201)

    async def _one(self, request: Request) -> Response:
        verb = VERBS[request.method]
        if refused := self._refusal(request, verb, "pods"):
            return refused
        name = request.path_params["name"]
        seen = await asyncio.to_thread(self._find_pod, name)
        if seen is None:
            return problem(404, f'pods "{name}" not found')
        if verb == "delete":
            default = seen["spec"]["terminationGracePeriodSeconds"]
            self._delete(name, int(request.query_params.get("gracePeriodSeconds", default)))
        return JSONResponse(seen)

    async def _attach(self, socket: WebSocket) -> None:
        if not self._allows("get", "pods/attach") or not is_authorised(socket):
            await socket.close(1008)
            return
        await socket.accept(subprotocol="v4.channel.k8s.io")
        container = self._containers.get(socket.path_params["name"], "")
        attached = await asyncio.to_thread(AttachedStream, self._docker, container)
        gone = threading.Event()
        loop = asyncio.get_running_loop()
        printing = loop.run_in_executor(None, forward_output, attached, socket, loop, gone)
        try:
            while True:
                message = await socket.receive_bytes()
                if message[:1] == b"\0":
                    await asyncio.to_thread(attached.send, message[1:], seconds=120)
        except (WebSocketDisconnect, OSError, RuntimeError):
            gone.set()
        await printing
        attached.__exit__(None, None, None)

    def _start(self, name: str, pod: dict[str, Any]) -> None:
        time.sleep(NODE_SECONDS)
        try:
            container = self._start_container(pod)
        except APIError as error:
            self._troubles[name] = str(error)
            return
        with self._guard:
            self._containers[name] = container
            is_wanted = name in self.pods
        if not is_wanted:
            self._end(name)

    def _start_container(self, pod: dict[str, Any]) -> str:
        """The container that stands for a pod, as a kubelet and a runtime would make it."""
        spec = pod["spec"]
        asked = spec["containers"][0]
        assert spec["securityContext"]["seccompProfile"]["localhostProfile"] == SECCOMP_PROFILE
        assert asked["securityContext"]["procMount"] == "Unmasked"
        memory = int(asked["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
        who = spec["securityContext"]
        volumes = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"]}
        tmpfs = {
            mount[
                "mountPath"
            ]: f"exec,nosuid,nodev,size={volumes[mount['name']].removesuffix('i')},"
            f"uid=0,gid={who['fsGroup']},mode=2777"
            for mount in asked["volumeMounts"]
        }
        host = self._docker.create_host_config(
            cap_drop=["ALL"],
            security_opt=[
                "no-new-privileges:true",
                f"seccomp={warm_profile(seccomp_profile())}",
                "apparmor=unconfined",
            ],
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=int(asked["resources"]["limits"]["cpu"].removesuffix("m")) * 1_000_000,
            network_mode="none",
            read_only=asked["securityContext"]["readOnlyRootFilesystem"],
            tmpfs=tmpfs,
            ipc_mode="none",
        )
        host |= {"MaskedPaths": [], "ReadonlyPaths": [], "LogConfig": {"Type": "none"}}
        made = cast(Any, self._docker).create_container(
            asked["image"],
            entrypoint=asked["command"],
            user=f"{who['runAsUser']}:{who['runAsGroup']}",
            hostname=spec["hostname"],
            working_dir=asked["workingDir"],
            stdin_open=True,
            network_disabled=True,
            host_config=host,
            labels=pod["metadata"]["annotations"],
        )
        self._docker.start(made["Id"])
        return str(made["Id"])

    def _find_pod(self, name: str) -> dict[str, Any] | None:
        pod = self.pods.get(name)
        if pod is None:
            return None
        if self.fate:
            return pod | {"status": self.fate}
        if name not in self._containers:
            return pod | {"status": pending(self._troubles.get(name, ""))}
        try:
            state = cast(dict[str, Any], self._docker.inspect_container(self._containers[name]))
        except NotFound:
            return pod | {"status": ended(143)}
        if state["State"]["Running"]:
            return pod | {"status": {"phase": "Running"}}
        return pod | {"status": ended(state["State"]["ExitCode"])}

    def _delete(self, name: str, grace: int) -> None:
        """Without grace, the server forgets a pod at once; its node ends the pod when it hears of
        that. With grace, the server keeps it until the node has ended it and freed the rest."""
        if grace == 0 or self.fate:
            self.pods.pop(name, None)
        elif pod := self.pods.get(name):  # else its node has ended it in this moment
            pod["metadata"].setdefault("deletionTimestamp", now())
        self._node.submit(self._end, name)

    def _end(self, name: str) -> None:
        time.sleep(NODE_SECONDS)
        with self._guard:
            container = self._containers.get(name)
            if container is None:
                self.pods.pop(name, None)
        if container is not None:
            with suppress(APIError):
                self._docker.remove_container(container, force=True, v=True)
            time.sleep(NODE_SECONDS)
        self.pods.pop(name, None)

    def _refusal(self, request: Request, verb: str = "", resource: str = "") -> Response | None:
        if not is_authorised(request):
            return problem(401, "Unauthorized")
        if verb and not self._allows(verb, resource):
            self.refusals.append(f"{verb} {resource}")
            what = f'"{resource}" in API group "" in the namespace "{NAMESPACE}"'
            return problem(
                403, f'{resource} is forbidden: User "capuchin" cannot {verb} resource {what}'
            )
        return None

    def _allows(self, verb: str, resource: str) -> bool:
        return any(verb in rule["verbs"] and resource in rule["resources"] for rule in self.rules)


NO_BUILD = dict.fromkeys(
    ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"), ""
)


def role_rules() -> list[dict[str, Any]]:
    """What `deploy/kubernetes/rbac.yaml` grants."""
    documents = yaml.safe_load_all(ROLE.read_text())
    return next(one["rules"] for one in documents if one["kind"] == "Role")


def quota_of_pods() -> int:
    """What `deploy/kubernetes/quota.yaml` allows."""
    return int(yaml.safe_load(QUOTA.read_text())["spec"]["hard"]["pods"])


def ended(code: int) -> dict[str, Any]:
    """The status of a pod whose container has ended."""
    state = {"terminated": {"exitCode": code, "reason": "Error"}}
    container = {"name": "lane", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Failed", "containerStatuses": [container | {"state": state}]}


def pending(trouble: str) -> dict[str, Any]:
    """The status of a pod whose container its node makes, or cannot make."""
    waiting = {"reason": "ContainerCreating"}
    if trouble:
        waiting = {"reason": "CreateContainerError", "message": trouble}
    container = {"name": "lane", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Pending", "containerStatuses": [container | {"state": {"waiting": waiting}}]}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_authorised(asked: Request | WebSocket) -> bool:
    return asked.headers.get("authorization") == f"Bearer {TOKEN}"


def problem(status: int, message: str) -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return Response(json.dumps(body | {"code": status}), status, media_type="application/json")


def forward_output(
    attached: AttachedStream,
    socket: WebSocket,
    loop: asyncio.AbstractEventLoop,
    gone: threading.Event,
) -> None:
    """Send all that the container prints to the client, then its final status."""

    def send(data: bytes) -> None:
        asyncio.run_coroutine_threadsafe(socket.send_bytes(data), loop).result()

    with suppress(DeadlinePassed, OSError, RuntimeError, ValueError, WebSocketDisconnect):
        while True:
            frame = attached.read(deadline=time.monotonic() + 600, stopped=gone.is_set)
            if frame is None:
                break
            if frame[1]:
                send((b"\1" if frame[0] == STDOUT else b"\2") + frame[1])
        send(b"\3" + json.dumps({"metadata": {}, "status": "Success"}).encode())
        asyncio.run_coroutine_threadsafe(socket.close(), loop).result()
