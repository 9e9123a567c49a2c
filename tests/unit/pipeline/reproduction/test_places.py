"""The test file nearest to an edit, in a tree where many have the same name."""

from __future__ import annotations

from pipeline.reproduction.places import rank_test_files

FORMS = "from django.contrib.auth.models import User\n"
TEXTS = {
    "tests/admin_views/test_forms.py": FORMS,
    "tests/auth_tests/test_forms.py": FORMS,
    "tests/auth_tests/test_models.py": FORMS,
    "tests/auth_tests/test_validators.py": "from django.contrib.auth import validators\n",
    "tests/forms_tests/tests/test_forms.py": "from django.forms import Form\n",
    "tests/migrations/test_state.py": "import os\n",
    "tests/validation/test_validators.py": "import os\n",
}


def rank(*changed: str) -> list[str]:
    return [path for path, _ in rank_test_files(changed, TEXTS, [])]


def test_of_equal_names_the_one_in_the_folder_named_alike_comes_first() -> None:
    assert rank("django/contrib/auth/forms.py")[0] == "tests/auth_tests/test_forms.py"
    assert rank("django/forms/forms.py")[0] == "tests/forms_tests/tests/test_forms.py"
    assert rank("django/contrib/auth/validators.py")[:2] == [
        "tests/auth_tests/test_validators.py",
        "tests/validation/test_validators.py",
    ]


def test_the_first_of_the_changed_files_counts_most() -> None:
    auth = "django/contrib/auth"
    ranked = rank(f"{auth}/validators.py", f"{auth}/models.py", f"{auth}/forms.py")
    assert ranked[:3] == [
        "tests/auth_tests/test_validators.py",
        "tests/auth_tests/test_models.py",
        "tests/auth_tests/test_forms.py",
    ]


def test_what_has_nothing_to_do_with_it_is_not_ranked() -> None:
    assert "tests/migrations/test_state.py" not in rank("django/contrib/auth/forms.py")
