"""Traces cost nothing unless they are wanted, and a missing package is said in a sentence."""

import subprocess
import sys

import pytest

from bot.settings import Settings, SettingsError
from bot.telemetry.tracing import tracing

CODE = """
import sys
import bot.bootstrap
from bot.settings import Settings
from bot.telemetry.tracing import tracing
with tracing(Settings()):
    print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_opentelemetry_is_not_loaded_without_an_endpoint() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_endpoint_without_the_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    settings = Settings.from_env({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    with pytest.raises(SettingsError, match=r"Install capuchin-bot\[traces\]"), tracing(settings):
        pass
