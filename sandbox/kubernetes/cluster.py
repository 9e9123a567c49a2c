"""The pods of one namespace, and their attached streams.

The SDK has no types; its answers are checked where they are used.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from sandbox.docker.container import POLL_SECONDS
from sandbox.errors import SandboxUnavailable
from sandbox.execution.jobs import STDERR, STDOUT, DeadlinePassed
from sandbox.kubernetes.pod import CONTAINER_NAME, GRACE_SECONDS

MESSAGE_BYTES: Final = 32 * 1024
"""Bytes per message: kubelets refuse much larger ones."""
log = logging.getLogger(__name__)

GONE_SECONDS: Final = 30
CALL_SECONDS: Final = 30
MISSING: Final = (
    "CAPUCHIN_SANDBOX=kubernetes needs the Kubernetes client: install `capuchin[kubernetes]`."
)


class PodStream:
    """Implements `sandbox.execution.jobs.Stream` on the websocket of `kubernetes.stream`.

    Protocol: https://kubernetes.io/docs/reference/using-api/websockets/, `v4.channel.k8s.io`.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def send(self, data: bytes, *, seconds: float) -> None:
        self._socket.sock.settimeout(seconds)
        for start in range(0, len(data), MESSAGE_BYTES):
            if not self._socket.is_open():
                raise OSError("the pod's input is closed")
            self._socket.write_stdin(data[start : start + MESSAGE_BYTES])

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        while True:
            for kind, channel in ((STDOUT, 1), (STDERR, 2)):
                data = self._socket.read_channel(channel)
                if data:
                    return kind, data if isinstance(data, bytes) else data.encode()
            if not self._socket.is_open():
                return None
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                raise DeadlinePassed
            self._socket.update(timeout=min(left, POLL_SECONDS))

    def close(self) -> None:
        self._socket.close()
        # If the other side closed first, `close` alone leaves the connection open.
        self._socket.sock.shutdown()


class Cluster:
    """One namespace of one cluster. The constructor does nothing; the first call connects."""

    def __init__(self, namespace: str, kubeconfig: Path | None = None) -> None:
        """`kubeconfig` says how to connect; None: by `KUBECONFIG`, or as a pod of the cluster."""
        self.namespace = namespace
        self._kubeconfig = kubeconfig
        self._guard = threading.Lock()
        self._api_client: Any = None

    def read_version(self) -> str:
        with translate_cluster_errors("The cluster does not answer"):
            return str(self._import_client().VersionApi(self._client()).get_code().git_version)

    def is_allowed(self, verb: str, resource: str, part: str = "") -> bool:
        """Whether our account may `verb` `resource` in this namespace."""
        kubernetes = self._import_client()
        attributes = {
            "namespace": self.namespace,
            "verb": verb,
            "resource": resource,
            "subresource": part,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        with translate_cluster_errors("The cluster does not answer"):
            api = kubernetes.AuthorizationV1Api(self._client())
            answer = api.create_self_subject_access_review(body, _request_timeout=CALL_SECONDS)
        return bool(answer.status.allowed)

    def create_pod(self, pod: Mapping[str, Any]) -> str:
        """The name of the new pod."""
        with translate_cluster_errors("The pod of a sandbox was refused"):
            self._core_api().create_namespaced_pod(
                self.namespace, dict(pod), _request_timeout=CALL_SECONDS
            )
        return str(pod["metadata"]["name"])

    def wait_until_running(self, name: str) -> None:
        """Raises `SandboxUnavailable` if it does not start, with the cluster's own reason."""
        started_at = time.monotonic()
        pause = 0.05
        while True:
            with translate_cluster_errors("The pod of a sandbox was lost"):
                pod = self._core_api().read_namespaced_pod(
                    name, self.namespace, _request_timeout=CALL_SECONDS
                )
            if pod.status.phase == "Running":
                return
            waited = time.monotonic() - started_at
            if has_failed_to_start(pod.status, waited):
                raise SandboxUnavailable(
                    f"The pod of a sandbox did not start within {waited:.0f} seconds: "
                    f"{pod_reason(pod.status)}"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1)

    def attach_to_pod(self, name: str) -> PodStream:
        from kubernetes import stream

        kubernetes = self._import_client()
        # `stream` replaces the request method of its client while it connects: use an own client.
        with translate_cluster_errors("The pod of a sandbox could not be attached to"):
            api = kubernetes.CoreV1Api(kubernetes.ApiClient(self._client().configuration))
            return PodStream(
                cast(Any, stream).stream(
                    api.connect_get_namespaced_pod_attach,
                    name,
                    self.namespace,
                    container=CONTAINER_NAME,
                    stdin=True,
                    stdout=True,
                    stderr=True,
                    tty=False,
                    binary=True,
                    _preload_content=False,
                    _request_timeout=CALL_SECONDS,
                )
            )

    def delete_pod(self, name: str, *, wait: bool = True) -> None:
        """Kill the pod and wait until nothing of it runs. A missing pod is not an error.

        Without any grace, a cluster forgets a pod while its node still runs it. So the pod gets a
        second, and is forgotten once its node says that its container has ended: the node itself
        may need many seconds more to free the rest. A node that says nothing gets `GONE_SECONDS`.
        """
        self._request_deletion(name, GRACE_SECONDS)
        if wait:
            if not self._wait_until_ended(name):
                log.warning("The node of pod %s does not say that the pod has ended.", name)
            self._request_deletion(name, 0)

    def _request_deletion(self, name: str, grace: int) -> None:
        with translate_cluster_errors(
            "The pod of a sandbox could not be deleted", ignored_status=404
        ):
            self._core_api().delete_namespaced_pod(
                name, self.namespace, grace_period_seconds=grace, _request_timeout=CALL_SECONDS
            )

    def _wait_until_ended(self, name: str) -> bool:
        deadline = time.monotonic() + GONE_SECONDS
        pause = 0.05
        while time.monotonic() < deadline:
            pod = self._find_pod(name)
            if pod is None or has_ended(pod.status):
                return True
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)
        return False

    def list_pods(self, selector: str) -> list[Any]:
        """The pods that `selector` matches, with `metadata`."""
        with translate_cluster_errors("The cluster could not list pods"):
            listed = self._core_api().list_namespaced_pod(
                self.namespace, label_selector=selector, _request_timeout=CALL_SECONDS
            )
        return list(listed.items)

    def close(self) -> None:
        if self._api_client is not None:
            self._api_client.close()

    def _find_pod(self, name: str) -> Any:
        """The pod, or None if there is none."""
        with translate_cluster_errors("The pod of a sandbox was lost", ignored_status=404):
            return self._core_api().read_namespaced_pod(
                name, self.namespace, _request_timeout=CALL_SECONDS
            )

    def _core_api(self) -> Any:
        return self._import_client().CoreV1Api(self._client())

    def _import_client(self) -> Any:
        try:
            from kubernetes import client
        except ImportError:
            raise SandboxUnavailable(MISSING) from None
        return client

    def _client(self) -> Any:
        with self._guard:
            if self._api_client is None:
                self._api_client = self._connect()
            return self._api_client

    def _connect(self) -> Any:
        kubernetes = self._import_client()
        from kubernetes import config

        given: Any = kubernetes.Configuration()
        try:
            named = {"config_file": str(self._kubeconfig)} if self._kubeconfig else {}
            cast(Any, config).load_config(client_configuration=given, **named)
        except config.ConfigException as error:
            raise SandboxUnavailable(
                f"The cluster cannot be reached: {error} Set KUBECONFIG, or run inside "
                "the cluster with a service account."
            ) from None
        return kubernetes.ApiClient(given)


def has_failed_to_start(status: Any, waited: float) -> bool:
    """Whether it is useless to wait longer for a pod, after `waited` seconds."""
    reason = pod_reason(status).partition(":")[0]
    # Registries fail for moments; perhaps a node must be started first.
    limit = 60 if reason in ("ErrImagePull", "ImagePullBackOff") else 300
    is_permanent = reason in (
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    )
    return is_permanent or status.phase in ("Failed", "Succeeded") or waited > limit


def has_ended(status: Any) -> bool:
    """Whether the node says that nothing of the pod runs. Its phase proves nothing: an evicted pod
    has failed before its node kills it."""
    containers = status.container_statuses or ()
    return bool(containers) and all(container.state.terminated for container in containers)


def pod_reason(status: Any) -> str:
    """Why a pod does not run, as the cluster states it."""
    for container in status.container_statuses or ():
        state = container.state
        for kind in (state.waiting, state.terminated):
            if kind is not None and kind.reason:
                return f"{kind.reason}: {kind.message or ''}".rstrip(": ")
    for condition in status.conditions or ():
        if condition.status == "False" and condition.message:
            return f"{condition.reason}: {condition.message}"
    return str(status.reason or status.phase or "unknown")


@contextmanager
def translate_cluster_errors(failure: str, *, ignored_status: int | None = None) -> Generator[None]:
    """Turn errors of the cluster and of the connection to it into `SandboxUnavailable`.

    `ignored_status` is an HTTP status that is not an error.
    """
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError
    from websocket import WebSocketException

    try:
        yield
    except ApiException as error:
        status = int(getattr(error, "status", 0) or 0)
        if status == ignored_status:
            return
        raise SandboxUnavailable(f"{failure}: {_error_text(error, status)}") from error
    except (HTTPError, WebSocketException, OSError) as error:
        raise SandboxUnavailable(f"{failure}: {' '.join(str(error).split())[:300]}") from error


def _error_text(error: Any, status: int) -> str:
    text = " ".join((_answer_message(error.body) or str(error.reason or error)).split())[:300]
    # It refuses (403) for other reasons than a missing role too, such as a full quota.
    if status == 401 or re.search(r'cannot \S+ resource "', text):
        return f"{text} Apply deploy/kubernetes/rbac.yaml to the namespace of the sandboxes."
    return f"{status} {text}"


def _answer_message(body: object) -> str:
    """What the cluster says in its answer, which is a `Status` in JSON or plain text."""
    try:
        return str(json.loads(str(body))["message"])
    except (ValueError, TypeError, KeyError):
        return str(body or "")
