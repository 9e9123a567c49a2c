"""The routes of a server that was really started, their answers, and the names of metrics."""

import hashlib
import hmac
import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Generator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from capuchin_demo.environment import find_free_port
from capuchin_demo.hub.tokens import generate_app
from tests.doors.outside import assert_expected, redis, serve, shape, worker
from tests.support.command_line import here
from tests.support.serving import wait_for_port

SECRET: Final = "a secret of a webhook"
TOKEN: Final = "a token of an operator"
_DELIVERIES: Final = count(1)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Somebody who knows the server's address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> Answer:
        """Underscores of a header's name are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._address + path, body, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as found:
                return Answer(found.status, dict(found.headers.items()), found.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers.items()), error.read())

    def tell(self, event: str, payload: object, delivery: str = "", **headers: str) -> Answer:
        """A webhook as GitHub sends it, of a repository that the App is installed on."""
        body = json.dumps(payload).encode()
        digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        usual = {
            "Content_Type": "application/json",
            "X_GitHub_Event": event,
            "X_GitHub_Delivery": delivery or f"delivery-{next(_DELIVERIES)}",
            "X_Hub_Signature_256": f"sha256={digest}",
        }
        return self.ask("/webhook", "POST", body, **{**usual, **headers})

    def label(self, issue: int, name: str, action: str = "labeled", delivery: str = "") -> Answer:
        payload = about(action, issue={"number": issue, "title": "t"}, label={"name": name})
        return self.tell("issues", payload, delivery)

    def say(self, issue: int, text: str) -> Answer:
        comment = {"id": 1000 + issue, "body": text, "created_at": "2024-01-01T00:00:00Z"}
        payload = about(
            "created", issue={"number": issue}, comment={**comment, "user": {"login": "ann"}}
        )
        return self.tell("issue_comment", payload)


def about(action: str, **facts: object) -> dict[str, object]:
    return {
        "action": action,
        "repository": {"id": 3, "name": "shop", "owner": {"login": "acme"}},
        "installation": {"id": 99},
        "sender": {"login": "ann", "type": "User"},
        **facts,
    }


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    """Of a server with an operator's token."""
    folder = tmp_path_factory.mktemp("http")
    with redis(folder) as queue:
        env = {"CAPUCHIN_REDIS_URL": queue, "CAPUCHIN_WEBHOOK_SECRET": SECRET}
        with serve(folder, {**env, "CAPUCHIN_DASHBOARD_TOKEN": TOKEN}) as address:
            yield Client(address)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    """Of a server without a token, whose Redis does not answer."""
    folder = tmp_path_factory.mktemp("alone")
    env = {"CAPUCHIN_REDIS_URL": "redis://127.0.0.1:9/0", "CAPUCHIN_WEBHOOK_SECRET": SECRET}
    with serve(folder, env) as address:
        yield Client(address)


def test_the_server_tells_how_it_is(client: Client, alone: Client) -> None:
    for one in (client, alone):
        health = one.ask("/healthz")
        assert (health.status, health.json) == (200, {"status": "ok"})
    ready = client.ask("/readyz")
    assert (ready.status, ready.json) == (200, {"ready": True})
    ready = alone.ask("/readyz")
    assert (ready.status, shape(ready.json)) == (503, {"ready": "boolean", "reason": "text"})


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/webhook", "POST"),
        ("/healthz", "GET"),
        ("/readyz", "GET"),
        ("/metrics", "GET"),
        ("/runs", "GET"),
        ("/api/runs", "GET"),
        ("/schema/runs.json", "GET"),
        ("/runs/1", "GET"),
        ("/runs/live.js", "GET"),
        ("/runs/1/events", "GET"),
        ("/runs/1/run.tar.zst", "GET"),
        ("/schema/capuchin.json", "GET"),
    ],
)
def test_a_route_answers_to_one_method(client: Client, path: str, allowed: str) -> None:
    for method in {"GET", "POST", "PUT", "DELETE"} - {allowed}:
        answer = client.ask(path, method, b"" if method != "GET" else None)
        assert (answer.status, answer.headers.get("allow")) == (405, allowed)


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/webhook/", "/runs/1/2", "/x"]
)
def test_there_is_nothing_else(client: Client, path: str) -> None:
    assert client.ask(path).status == 404


def test_the_pages_of_runs_are_closed_without_the_token(client: Client, alone: Client) -> None:
    inside = (f"/runs/{'0' * 32}/events", f"/runs/{'0' * 32}/run.tar.zst?key=wrong")
    closed = ("/runs", "/api/runs", f"/runs/{'0' * 32}", "/runs/1", "/runs/1?key=wrong")
    for path in (*closed, *inside):
        assert alone.ask(path).status == 403
        locked = client.ask(path)
        assert (locked.status, locked.headers["www-authenticate"].split()[0]) == (401, "Basic")
        assert client.ask(path, Authorization="Bearer wrong").status == 401


def test_the_token_opens_them_as_bearer_and_as_password(client: Client) -> None:
    run = client.label(20, "capuchin").json["run"]
    password = b64encode(f"anybody:{TOKEN}".encode()).decode()
    for word in (f"Bearer {TOKEN}", f"Basic {password}"):
        for path in ("/runs", f"/runs/{run}"):
            page = client.ask(path, Authorization=word)
            kind = page.headers["content-type"]
            assert (page.status, kind) == (200, "text/html; charset=utf-8")
        assert client.ask(f"/runs/{'0' * 32}", Authorization=word).status == 404


def test_the_schema_of_the_settings_file_is_served_to_editors(client: Client) -> None:
    answer = client.ask("/schema/capuchin.json")
    assert (answer.status, answer.json) == (200, here("config", "schema").json)
    assert answer.headers["content-type"] == "application/schema+json"
    assert answer.headers["access-control-allow-origin"] == "*"


def test_a_webhook_that_is_not_githubs_is_refused(client: Client) -> None:
    assert client.ask("/webhook", "POST", b"{}").status == 401
    assert client.tell("ping", {}, X_Hub_Signature_256="sha256=" + "0" * 64).status == 401
    assert client.tell("issues", about("labeled")).status == 400
    refused = client.tell("issues", {"action": "labeled"})
    assert (refused.status, shape(refused.json)) == (400, {"error": "text"})
    assert client.tell("ping", {}, X_GitHub_Enterprise_Host="other.example.org").status == 400
    assert (
        client.ask(
            "/webhook",
            "POST",
            None,
            Content_Length="99999999",
            X_Hub_Signature_256="sha256=" + "0" * 64,
        ).status
        == 413
    )


def test_a_webhook_that_asks_for_nothing_is_204(client: Client) -> None:
    for answer in (
        client.tell("ping", {"zen": "Keep it logically awesome."}),
        client.label(30, "bug"),
        client.label(30, "capuchin:other"),
        client.label(30, "capuchin:disabled"),
        client.label(30, "capuchin", "unlabeled"),
        client.say(30, "hello"),
        client.say(30, "I like `/capuchin fix`"),
        client.say(30, "> /capuchin fix"),
    ):
        assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize(
    ("issue", "label"),
    [(41, "capuchin"), (42, "capuchin:auto"), (43, "capuchin:dry-run"), (44, "CAPUCHIN")],
)
def test_a_label_asks_for_a_run(client: Client, issue: int, label: str) -> None:
    first = client.label(issue, label, delivery=f"first-{issue}")
    run = first.json["run"]
    assert re.fullmatch("[0-9a-f]{32}", run)
    assert (first.status, first.json) == (202, {"run": run, "status": "created"})
    again = client.label(issue, label, delivery=f"first-{issue}")
    assert (again.status, again.json) == (200, {"run": run, "status": "repeated"})
    second = client.label(issue, label)
    assert (second.status, second.json) == (202, {"run": run, "status": "running"})


@pytest.mark.parametrize(
    ("issue", "label", "action"),
    [(51, "capuchin", "unlabeled"), (52, "capuchin:disabled", "labeled")],
)
def test_labels_stop_a_run(client: Client, issue: int, label: str, action: str) -> None:
    run = client.label(issue, "capuchin").json["run"]
    stopped = client.label(issue, label, action)
    assert (stopped.status, stopped.json) == (202, {"run": run, "status": "stopping"})


@pytest.mark.parametrize(
    ("issue", "text"),
    [
        (61, "/capuchin fix"),
        (62, "/capuchin"),
        (63, "@capuchin fix"),
        (64, "@capuchin[bot] fix"),
        (65, "/CAPUCHIN Fix\nMore words."),
    ],
)
def test_a_comment_that_begins_with_our_name_is_a_command(
    client: Client, issue: int, text: str
) -> None:
    taken = client.say(issue, text)
    assert (taken.status, shape(taken.json)) == (202, {"order": "text", "status": "text"})
    assert taken.json["status"] == "taken"


def test_without_redis_a_webhook_is_to_be_sent_again(alone: Client) -> None:
    refused = alone.label(1, "capuchin")
    assert (refused.status, shape(refused.json)) == (503, {"error": "text"})


def read_metrics(text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        name: {"type": kind, "labels": {}}
        for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text)
    }
    for name, labels in re.findall(r"(?m)^(\w+)\{(.*)\} \S+$", text):
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            known: list[str] = found[name]["labels"].setdefault(label, [])
            known += [value] if label != "status" and value not in known else []
    return found


def test_a_worker_shows_its_own_metrics_at_a_port_of_its_own(tmp_path: Path) -> None:
    port = find_free_port()
    env = {
        "CAPUCHIN_REDIS_URL": "redis://127.0.0.1:9/0",
        "CAPUCHIN_GITHUB_URL": "http://127.0.0.1:9",
        "CAPUCHIN_GITHUB_APP_ID": "1",
        "CAPUCHIN_GITHUB_PRIVATE_KEY": generate_app().private_key_pem,
        "CAPUCHIN_DATA_DIR": str(tmp_path),
    }
    with worker(tmp_path, env, "--metrics-port", str(port)):
        wait_for_port(port)
        page = Client(f"http://127.0.0.1:{port}").ask("/metrics")
    assert page.status == 200
    assert_expected("worker_metrics", read_metrics(page.body.decode()))


def test_metrics_have_these_names_kinds_and_labels(client: Client, alone: Client) -> None:
    client.tell("ping", {})
    page = client.ask("/metrics")
    kind = page.headers["content-type"]
    assert (page.status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert_expected("metrics", read_metrics(page.body.decode()))
    without = alone.ask("/metrics")
    assert (without.status, b"capuchin_redis_up 0\n" in without.body) == (200, True)
