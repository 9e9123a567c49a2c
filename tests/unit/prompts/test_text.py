from prompts.text import drop_index_lines, shorten


def test_a_long_text_is_cut_between_lines_and_keeps_its_last_forty() -> None:
    lines = [f"line {n}" for n in range(1000)]
    shown = shorten("\n".join(lines), 1000).split("\n")
    assert shown[-40:] == lines[-40:]
    (note,) = [line for line in shown if "left out" in line]
    at = shown.index(note)
    assert shown[:at] == lines[:at]
    assert note == f"[... {1000 - len(shown) + 1} lines left out ...]"
    assert len("\n".join(shown)) <= 1000 + 40


def test_the_last_forty_lines_come_before_the_first_ones() -> None:
    lines = ["first", *("x" * 20 for _ in range(100)), *(f"{n:020}" for n in range(40))]
    assert shorten("\n".join(lines), 900).split("\n")[-40:] == lines[-40:]


def test_a_diff_is_read_without_the_names_of_blobs() -> None:
    head, rest = (
        "diff --git a/x b/x\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-index 1111..2222\n+index a..b\n",
    )
    line = f"index {'a' * 40}..{'1' * 40} 100644\n"
    assert drop_index_lines(f"{head}{line}{rest}") == f"{head}{rest}"
    assert drop_index_lines(f"{head}index 0000000..1234567\n{rest}") == f"{head}{rest}"
