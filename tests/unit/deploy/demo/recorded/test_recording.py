import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from capuchin_demo.recorded.prompt_cache import TTL_SECONDS, PromptCache, PromptPart
from capuchin_demo.recorded.recording import ReceivedRequest, Recording
from pipeline.data.types import Usage
from pipeline.models.base import Message


def asked(call: str, last: str = "Hello?", *, system: str = "", turn: int = 0) -> ReceivedRequest:
    earlier = [Message(role="user", text="first"), Message(role="assistant", text="reply")] * turn
    return ReceivedRequest(
        protocol="anthropic",
        call=call,
        model="m",
        system=system,
        messages=(*earlier, Message(role="user", text=last)),
        max_tokens=None,
        temperature=None,
        stream=True,
        stream_usage=True,
        parts=(),
        headers={},
    )


def recorded(*answers: dict[str, Any]) -> Recording:
    return Recording.model_validate({"version": 1, "note": "Made up.", "answers": answers})


def chosen(recording: Recording, question: ReceivedRequest) -> str | None:
    index = recording.choose(question)
    return None if index is None else recording.answers[index].reply


@pytest.mark.parametrize(
    ("pattern", "call", "fits"),
    [
        ("testing/0", "testing/0", True),
        ("testing/0", "testing/01", False),
        ("testing", "testing/7", True),
        ("testing", "testing", True),
        ("testing", "testing-more/0", False),
        ("testing/*", "testing/12", True),
        ("testing/[01]", "testing/1", True),
        ("testing/[01]", "testing/2", False),
        ("*", "anything/0", True),
        ("*", "", True),
        ("Testing", "testing/0", False),
    ],
)
def test_an_answer_is_for_a_call_a_stage_or_a_glob(pattern: str, call: str, fits: bool) -> None:
    recording = recorded({"call": pattern, "reply": "yes"})
    assert (chosen(recording, asked(call)) == "yes") is fits


def test_an_answer_can_be_for_one_turn() -> None:
    recording = recorded(
        {"call": "testing", "turn": 0, "reply": "zero"},
        {"call": "testing", "turn": 2, "reply": "two"},
    )
    answers = [chosen(recording, asked("testing/0", turn=turn)) for turn in range(4)]
    assert answers == ["zero", None, "two", None]


def test_all_the_words_must_be_in_the_last_user_message() -> None:
    recording = recorded({"call": "*", "when": ["a.py", "fixed"], "reply": "yes"})
    assert chosen(recording, asked("editing/0", "a.py is fixed")) == "yes"
    assert chosen(recording, asked("editing/0", "a.py is broken")) is None
    assert chosen(recording, asked("editing/0", "first", turn=1)) is None


def test_words_can_be_asked_of_the_system_prompt() -> None:
    recording = recorded({"call": "*", "when_system": "reviewer", "reply": "yes"})
    assert chosen(recording, asked("selecting/0", system="You are a reviewer.")) == "yes"
    assert chosen(recording, asked("selecting/0", "reviewer")) is None


def test_the_first_answer_that_fits_wins_and_later_ones_are_fallbacks() -> None:
    recording = recorded(
        {"call": "relevance", "when": "src/fields.py", "reply": "RELEVANT"},
        {"call": "relevance", "reply": "NOT RELEVANT"},
    )
    assert chosen(recording, asked("relevance/3", "src/fields.py")) == "RELEVANT"
    assert chosen(recording, asked("relevance/4", "src/other.py")) == "NOT RELEVANT"


def test_a_recording_is_read_from_yaml_and_from_json(tmp_path: Path) -> None:
    yaml, plain = tmp_path / "r.yaml", tmp_path / "r.json"
    yaml.write_text(
        "version: 1\nnote: Made up.\nanswers:\n"
        "  - call: testing/0\n    cut: true\n    times: 1\n    reply: |\n      Grüße\n      <b>\n",
        encoding="utf-8",
    )
    answer = {"call": "testing/0", "cut": "end", "times": 1, "reply": "Grüße\n<b>\n"}
    plain.write_text(json.dumps({"version": 1, "note": "Made up.", "answers": [answer]}))
    assert Recording.load(yaml) == Recording.load(plain) == recorded(answer)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"call": "testing"}, "answers.0: Value error, has no `reply`"),
        ({"reply": "yes"}, "answers.0.call: Field required"),
        ({"call": "", "reply": "yes"}, "answers.0.call: String should have at least 1"),
        ({"call": "t", "replay": "yes"}, "answers.0.replay: Extra inputs are not permitted"),
        ({"call": "t", "turn": -1, "reply": "y"}, "answers.0.turn: Input should be greater"),
        ({"call": "t", "status": 200}, "answers.0.status: Input should be greater"),
        ({"call": "t", "status": 500, "cut": True}, "has both `status` and `cut`"),
        ({"call": "t", "times": 1, "reply": "y"}, "has `times`, but neither"),
        ({"call": "t", "late": True, "reply": "y"}, "is `late`, but has no `status`"),
        ({"call": "t", "status": 500, "times": 1}, "has no `reply`"),
        ({"call": "t", "stop": "soon", "reply": "y"}, "answers.0.stop: Input should be 'end'"),
        ({"call": "t", "when": 5, "reply": "y"}, "answers.0.when: Input should be a valid tuple"),
    ],
)
def test_a_mistake_in_an_answer_is_located(answer: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        recorded(answer)
    assert sentence in re.sub(r"\n  ", ": ", str(caught.value))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def prompt(*texts: str, marked: Sequence[int] = ()) -> list[PromptPart]:
    return [PromptPart(text=text * 8_000, marked=i in marked) for i, text in enumerate(texts)]


def test_marked_prefixes_are_stored_once_and_then_read() -> None:
    cache = PromptCache(Clock())
    first = cache.count_usage("m", prompt("a", "b", "c", marked=[0, 1]))
    assert first == Usage(input=2000, cache_write=4000)
    again = cache.count_usage("m", prompt("a", "b", "c", marked=[0, 1]))
    assert again == Usage(input=2000, cache_read=4000)
    other_end = cache.count_usage("m", prompt("a", "x", marked=[1]))
    assert other_end == Usage(cache_read=2000, cache_write=2000)


def test_without_a_mark_nothing_is_stored_nor_read() -> None:
    cache = PromptCache(Clock())
    cache.count_usage("m", prompt("a", "b", marked=[1]))
    assert cache.count_usage("m", prompt("a", "b")) == Usage(input=4000)
    assert cache.count_usage("m", []) == Usage()


def test_another_model_has_another_cache() -> None:
    cache = PromptCache(Clock())
    cache.count_usage("m", prompt("a", "b", marked=[1]))
    assert cache.count_usage("n", prompt("a", "b", marked=[1])) == Usage(cache_write=4000)


def test_a_short_prefix_is_not_stored() -> None:
    cache = PromptCache(Clock())
    short = [PromptPart(text="a" * 4_000, marked=True), PromptPart(text="b", marked=False)]
    assert cache.count_usage("m", short) == Usage(input=1001)


def test_a_prefix_is_forgotten_when_it_is_not_used() -> None:
    clock = Clock()
    cache = PromptCache(clock)
    used = prompt("a", "b", marked=[1])
    cache.count_usage("m", used)
    clock.now = TTL_SECONDS - 1
    assert cache.count_usage("m", used).cache_read == 4000
    clock.now = 2 * TTL_SECONDS - 2
    assert cache.count_usage("m", used).cache_read == 4000
    clock.now = 3 * TTL_SECONDS
    assert cache.count_usage("m", used) == Usage(cache_write=4000)
