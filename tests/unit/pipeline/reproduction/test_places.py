"""The test file nearest to an edit, in a tree where many have the same name."""

from pathlib import Path

from pipeline.reproduction.places import choose_extension, rank_test_files
from tests.support.data.repositories import make_codebase

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


def test_a_file_that_imports_the_module_comes_before_one_that_only_shares_a_common_name() -> None:
    """Seen with Django's issue 13279: a test of the databases was extended."""
    texts = {
        "tests/backends/base/test_base.py": "from django.db.backends.base.base import Wrapper\n",
        "tests/sessions_tests/tests.py": "import django.contrib.sessions.backends.base\n",
    }
    changed = ["django/contrib/sessions/backends/base.py"]
    ranked = rank_test_files(changed, texts, [])
    assert ranked[0] == ("tests/sessions_tests/tests.py", 3)


def test_a_file_that_other_edits_change_comes_before_one_named_after_the_module() -> None:
    """Seen with pylint's issue 4661: three edits of four changed the linter's tests."""
    auth, by_others = "django/contrib/auth/forms.py", ["tests/migrations/test_state.py"]
    ranked = [path for path, _ in rank_test_files([auth], TEXTS, [], by_others)]
    assert ranked[:2] == [*by_others, "tests/auth_tests/test_forms.py"]


async def test_a_test_file_that_the_edit_changes_is_nearest_and_no_other_is_extended(
    tmp_path: Path,
) -> None:
    texts = {
        "tests/backends/base/test_base.py": "from django.db.backends.base.base import Wrapper\n",
        "tests/sessions_tests/tests.py": "import unittest\n",
    }
    codebase = await make_codebase(tmp_path / "r.git", texts)
    source = "django/contrib/sessions/backends/base.py"
    changed = [source, "tests/sessions_tests/tests.py"]
    ranked = rank_test_files(changed, texts, [])
    assert ranked[0][0] == "tests/sessions_tests/tests.py"
    assert choose_extension(ranked, frozenset(changed), codebase, ()) is None
    alone = rank_test_files([source], texts, [])
    other = choose_extension(alone, frozenset([source]), codebase, ())
    assert other == "tests/backends/base/test_base.py"


def test_a_test_named_after_a_module_of_a_common_name_is_near_if_it_imports_it() -> None:
    texts = {
        "tests/test_utils.py": "from shop import utils\n",
        "tests/test_a.py": "import shop.utils\n",
    }
    assert rank_test_files(["shop/utils.py"], texts, [])[0] == ("tests/test_utils.py", 3)
    imports = {"import utils\n": "utils.py", "from shop.utils import x\n": "src/shop/utils.py"}
    for text, module in imports.items():
        assert rank_test_files([module], {"tests/test_utils.py": text}, []) == [
            ("tests/test_utils.py", 3)
        ]
    assert rank_test_files(["shop/cart/base.py"], {"tests/test_base.py": ""}, []) == [
        ("tests/test_base.py", 1)
    ]
