import pytest

from sandbox.output import Output


def written(kept: int, *pieces: bytes) -> Output:
    output = Output(kept)
    for piece in pieces:
        output.add(piece)
    return output


def test_short_output_is_kept_whole() -> None:
    assert written(10, b"abcde", b"fghij").text() == "abcdefghij"


def test_a_character_that_straddles_the_halves_is_not_broken() -> None:
    assert written(6, b"ab\xe2\x82\xacd").text() == "ab€d"


@pytest.mark.parametrize("size", [1, 3, 64, 1000])
def test_head_and_tail_are_kept_however_the_pieces_fall(size: int) -> None:
    data = bytes(range(65, 91)) * 40
    output = written(20, *(data[i : i + size] for i in range(0, len(data), size)))
    assert output.total == len(data)
    assert output.text() == ("ABCDEFGHIJ\n[... 1020 bytes of output left out here ...]\nQRSTUVWXYZ")


def test_nothing_printed_is_nothing() -> None:
    assert Output(10).text() == ""


def test_memory_stays_small_under_a_flood() -> None:
    output = written(100, *[b"x" * 1000] * 1000)
    assert len(output.text()) < 200
    assert output.total == 1_000_000
