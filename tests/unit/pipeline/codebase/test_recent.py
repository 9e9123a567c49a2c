from __future__ import annotations

from pipeline.codebase.commit import RecentBytes


def test_what_was_asked_for_longest_ago_makes_room() -> None:
    recent = RecentBytes(160)
    for number in range(16):
        recent.add(str(number), bytes(10))
    assert recent.get("0") is not None
    recent.add("next", b"x")
    assert [name for name in ("0", "1", "2", "next") if recent.get(name) is None] == ["1"]


def test_a_value_that_would_push_out_most_others_is_not_kept() -> None:
    recent = RecentBytes(160)
    recent.add("small", bytes(10))
    recent.add("large", bytes(11))
    assert (recent.get("small"), recent.get("large")) == (bytes(10), None)
