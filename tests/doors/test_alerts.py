"""An alert on its whole way: server, Prometheus with the shipped rules, Alertmanager, a person."""

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

import pytest

from capuchin_demo.environment import find_free_port
from tests.doors.outside import ROOT, redis, running, serve
from tests.support.serving import serve_beside

SECONDS: Final = 120
PROMETHEUS: Final = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs: [{{job_name: capuchin, static_configs: [{{targets: ["{server}"]}}]}}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alerts}"]}}]}}]}}
"""
ALERTMANAGER: Final = """
route: {{receiver: person, group_wait: 0s, group_by: [alertname]}}
receivers: [{{name: person, webhook_configs: [{{url: "http://127.0.0.1:{person}/"}}]}}]
"""


@contextmanager
def listening(alerts: Queue[dict[str, Any]]) -> Generator[int]:
    """The port of somebody who is called."""

    class Person(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            for alert in json.loads(body)["alerts"]:
                alerts.put(alert)
            self.send_response(200)
            self.end_headers()

    with serve_beside(Person) as port:
        yield port


def test_somebody_is_called_when_no_worker_lives(tmp_path: Path) -> None:
    prometheus, alertmanager = shutil.which("prometheus"), shutil.which("prometheus-alertmanager")
    if prometheus is None or alertmanager is None:
        pytest.skip(
            "Prometheus or Alertmanager is missing: apt-get install prometheus"
            " prometheus-alertmanager"
        )
    rules = (ROOT / "deploy/monitoring/alerts.yml").read_text(encoding="utf-8")
    (tmp_path / "rules.yml").write_text(rules.replace("for: 5m", "for: 0s"), encoding="utf-8")
    alerts: Queue[dict[str, Any]] = Queue()
    at, metrics_at = find_free_port(), find_free_port()
    with redis(tmp_path) as queue, listening(alerts) as person:
        env = {"CAPUCHIN_REDIS_URL": queue, "CAPUCHIN_WEBHOOK_SECRET": "a secret of a webhook"}
        with serve(tmp_path, env) as server:
            config = PROMETHEUS.format(server=server.removeprefix("http://"), alerts=at)
            (tmp_path / "prometheus.yml").write_text(config, encoding="utf-8")
            called = ALERTMANAGER.format(person=person)
            (tmp_path / "alertmanager.yml").write_text(called, encoding="utf-8")
            receive = [
                alertmanager,
                f"--config.file={tmp_path / 'alertmanager.yml'}",
                f"--storage.path={tmp_path / 'alerts'}",
                f"--web.listen-address=127.0.0.1:{at}",
                "--cluster.listen-address=",
            ]
            watch = [
                prometheus,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'series'}",
                f"--web.listen-address=127.0.0.1:{metrics_at}",
            ]
            with (
                running(receive, {}, tmp_path / "alertmanager.log"),
                running(watch, {}, tmp_path / "prometheus.log"),
            ):
                found = wait_for_alert(alerts, "CapuchinNoWorkers")
    assert (found["status"], found["labels"]["severity"]) == ("firing", "critical")
    assert found["annotations"]["summary"].startswith("No worker lives")


def wait_for_alert(alerts: Queue[dict[str, Any]], name: str) -> dict[str, Any]:
    try:
        while (alert := alerts.get(timeout=SECONDS))["labels"]["alertname"] != name:
            pass
    except Empty:
        raise AssertionError(f"nobody was called about {name}") from None
    return alert
