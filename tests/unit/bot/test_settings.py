"""What the environment sets, and the address of Redis."""

from pathlib import Path

import pytest

from bot.data.removed_settings import REMOVED
from bot.runner.sandbox import pod_options
from bot.settings import (
    Settings,
    SettingsError,
    find_unknown_variables,
    list_redis_hosts,
    list_redis_passwords,
    parse_redis_url,
)
from bot.storage.storage import Storage
from bot.telemetry.log import list_secrets
from pipeline.models.spec import parse_spec


def test_no_variable_sets_an_interval() -> None:
    assert Settings.from_env({"CAPUCHIN_TIMINGS": '{"sweep_seconds": 1}'}) == Settings()


@pytest.mark.parametrize(("runtime", "runtime_class"), [("auto", ""), ("gvisor", "gvisor")])
def test_the_runtime_of_the_sandbox_is_the_runtime_class_of_pods(
    runtime: str, runtime_class: str
) -> None:
    settings = Settings.from_env({"CAPUCHIN_SANDBOX_RUNTIME": runtime})
    assert pod_options(settings).runtime_class == runtime_class


SENTINELS = (
    "rediss+sentinel://bob:se%2Fcret@one,[::1]:5000/main/2"
    "?ssl_ca_certs=/ca.pem&sentinel_username=asker&sentinel_password=other%20word"
)


def test_the_address_of_sentinels_is_taken_apart() -> None:
    place = parse_redis_url(SENTINELS)
    assert place.hosts == (("one", 26379), ("::1", 5000))
    assert place.service == "main"
    assert place.url.startswith("rediss://bob:se%2Fcret@one/2?ssl_ca_certs=/ca.pem&sentinel_")
    assert "secret" not in repr(place)
    assert "word" not in repr(place)


def test_every_machine_and_every_password_of_an_address_is_known() -> None:
    assert list_redis_hosts(SENTINELS) == ["one", "::1"]
    assert {"se/cret", "other word", "other%20word"} <= set(list_redis_passwords(SENTINELS))
    assert list_redis_hosts("unix:///run/redis.sock") == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://one:26379", "the name of the service is missing"),
        ("redis+cluster://one", "use redis"),
        ("http://one", "use redis"),
        ("redis://one:port", "[Pp]ort"),
    ],
)
def test_a_wrong_address_is_refused_with_what_to_write(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match="CAPUCHIN_REDIS_URL: .*" + said):
        Storage.open(url, "capuchin:", timeout=1)


def test_nothing_is_kept_in_the_folder_that_a_command_is_started_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Settings().data_dir == tmp_path / "capuchin"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CAPUCHIN_WORKER_RUNS", "two", "it must be a whole number"),
        ("CAPUCHIN_WORKER_RUNS", "0", "it must be greater than or equal to 1"),
    ],
)
def test_a_value_of_another_kind_is_told_in_plain_words(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}: {said}\.$"):
        Settings.from_env({name: value})


@pytest.mark.parametrize("name", REMOVED["variables"])
def test_a_removed_variable_stops_the_start_with_a_sentence(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^CAPUCHIN_{name} no longer exists: .+\.$"):
        Settings.from_env({f"CAPUCHIN_{name}": "1"})
    assert Settings.from_env({f"CAPUCHIN_{name}": ""}) == Settings()


def test_only_a_name_that_is_near_is_suggested() -> None:
    (near,) = find_unknown_variables({"CAPUCHIN_WORKER_RUN": "1"})
    (far,) = find_unknown_variables({"CAPUCHIN_OLD_THING": "1"})
    assert "CAPUCHIN_WORKER_RUNS" in near
    assert far == "CAPUCHIN_OLD_THING is unknown."


@pytest.mark.parametrize(
    ("model", "variable", "key"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", "of OpenAI"),
        ("openai:gpt-5@https://proxy.example/v1", "CAPUCHIN_MODEL_API_KEY", "of servers"),
        ("openai:gpt-5@https://api.openai.com.example/v1", "CAPUCHIN_MODEL_API_KEY", "of servers"),
        ("anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY", "of Anthropic"),
    ],
)
def test_each_service_gets_its_own_key(model: str, variable: str, key: str) -> None:
    keys = {
        "OPENAI_API_KEY": "of OpenAI",
        "CAPUCHIN_MODEL_API_KEY": "of servers",
        "ANTHROPIC_API_KEY": "of Anthropic",
    }
    spec = parse_spec(model)
    assert Settings.from_env(keys).find_key(spec) == (variable, key)
    assert Settings.from_env({}).lacks_key(spec) is ("example" not in model)
    assert list_secrets(Settings.from_env(keys)) == ["of servers", "of OpenAI", "of Anthropic"]
