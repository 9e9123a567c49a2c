import pytest

from pipeline.languages.python.expectations import change_expectations

NONCE = "ab12cd34ef567890"


def changed(text: str) -> list[str]:
    return list(change_expectations(text, NONCE) or ())


@pytest.mark.parametrize(
    ("text", "fresh"),
    [
        ("exit(0 if f(1) == 3 else 2)", "exit(0 if f(1) == 2870136116 else 2)"),
        ("assert 1.5 == f()", "assert 2870136116.5 == f()"),
        ("if f('a') != 'b':\n    exit(2)", f"if f('a') != '{NONCE}':\n    exit(2)"),
        ("assert f() == b'x'", f"assert f() == b'{NONCE}'"),
        ("t.assertEqual(f(2), 4)", "t.assertEqual(f(2), 2870136116)"),
        ('assert f() == ("a" "b")  # é', f'assert f() == ("{NONCE}")  # é'),
        ("type A = int\nassert f'{'a'}' == 'a'", f"type A = int\nassert f'{{'a'}}' == '{NONCE}'"),
        ("print 1\nassert f() == 3L", "print 1\nassert f() == 2870136116"),
    ],
)
def test_what_a_script_expects_gets_a_fresh_value_of_its_kind(text: str, fresh: str) -> None:
    assert changed(text)[0] == fresh
    assert "object()" in changed(text)[1]


@pytest.mark.parametrize(
    "text",
    ["assert f() is None", "assert f() == True", "if __name__ == '__main__':\n    f()", "1 == 1",
     "assert f() in (1, 2)", "assert f() < 3", "assert f() == f'{a}'", "assert f( == 3"],
)  # fmt: skip
def test_a_script_without_such_a_value_is_left_alone(text: str) -> None:
    assert changed(text) == []
