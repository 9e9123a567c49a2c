"""Which files of a repository an issue names, and which it may mean."""

import pytest

from pipeline.context.retrieval.mentions import find_mentions
from pipeline.data.types import Issue


def mentions(text: str, paths: list[str]) -> tuple[list[str], list[str]]:
    found = find_mentions(Issue(repository="a/b", title="It fails", body=text), paths)
    return list(found.named), list(found.possible)


TRACES = {
    'File "/usr/lib/python3/site-packages/pkg/http.py", line 3, in get': ["src/pkg/http.py"],
    r'File "C:\Users\me\Pkg\HTTP.py", line 3': ["src/pkg/http.py"],
    'File "/home/me/my project/web app/view.py", line 1': ["web app/view.py"],
    "    at get (/srv/app/lib/client.js:10:5)": ["lib/client.js"],
    "at com.acme.net.Client.get(Client.java:12)": ["src/main/java/com/acme/net/Client.java"],
    "/go/src/acme/server.go:12 +0x1d": ["acme/server.go"],
    "thread 'main' panicked at src/main.rs:10:5": ["src/main.rs"],
    "in /var/www/acme/Index.php on line 3": ["acme/Index.php"],
    "see `main.rs`, please": ["src/main.rs"],
    "see acme/server.go:12 and `pkg/http.py`.": ["acme/server.go", "src/pkg/http.py"],
    'File "/usr/lib/python3/other/http.py", line 3': [],
    "see __init__.py": [],
    "version 1.2.3 of e.g. this": [],
}
PATHS = [
    "src/pkg/http.py",
    "src/main.rs",
    "web app/view.py",
    "lib/client.js",
    "src/main/java/com/acme/net/Client.java",
    "src/main/java/com/acme/db/Client.java",
    "acme/server.go",
    "acme/Index.php",
    *(f"p{n}/__init__.py" for n in range(9)),
]


@pytest.mark.parametrize("text", TRACES)
def test_files_of_stack_traces_and_quoted_names_are_known_in_every_language(text: str) -> None:
    assert mentions(text, PATHS) == (TRACES[text], [])


CATALOGS = [f"sphinx/locale/{code}/LC_MESSAGES/sphinx.po" for code in ("ar", "bg", "da", "nl")]


def test_of_a_path_with_folders_all_folders_must_agree() -> None:
    text = (
        "``locale/<language>/LC_MESSAGES/sphinx.po`` is ignored: I add "
        "``locale/da/LC_MESSAGES/sphinx.po``."
    )
    assert mentions(text, CATALOGS) == ([CATALOGS[2]], [])
    assert mentions("I add locale/fr/LC_MESSAGES/sphinx.po.", CATALOGS) == ([], [])
    assert mentions("see old/pkg/http.py", ["new/pkg/http.py"]) == ([], [])
    assert mentions("I wrote examples/setup.py", ["setup.py"]) == ([], [])


COMPILERS = ["django/db/backends/mysql/compiler.py", "django/db/models/sql/compiler.py"]
ADDRESS = "https://github.com/django/django/blob/master/django/db/models/sql/compiler.py#L428-L433"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"See [compiler.py#L428-L433]({ADDRESS}).", [COMPILERS[1]]),
        ("See compiler.py: in sql/compiler.py, line 428.", [COMPILERS[1]]),
        ("+++ b/django/db/models/sql/compiler.py", [COMPILERS[1]]),
        ("compiler.py is mysql/compiler.py here, sql/compiler.py there", COMPILERS),
    ],
)
def test_where_a_path_names_a_file_others_of_its_name_are_not_meant(
    text: str, named: list[str]
) -> None:
    assert mentions(text, COMPILERS) == (named, [])


def test_a_bare_name_of_several_files_names_none_of_them() -> None:
    assert mentions("(see \u200bcompiler.py#L428-L433).", COMPILERS) == ([], COMPILERS)
    assert mentions("see compiler.py", COMPILERS[:1]) == (COMPILERS[:1], [])
    many = [f"{folder}/compiler.py" for folder in "abcdef"]
    assert mentions("see compiler.py", many) == ([], [])


def test_a_bare_name_beside_a_path_of_no_file_names_none() -> None:
    text = "Open `_build/html/index.html`. ![Screenshot of index.html](x.png)"
    assert mentions(text, ["doc/_templates/index.html"]) == ([], ["doc/_templates/index.html"])


def test_a_path_that_several_files_end_with_names_the_one_at_the_root() -> None:
    paths = ["src/core/utils.py", "tests/core/utils.py"]
    assert mentions("see core/utils.py", paths) == (paths[:1], [])
    assert mentions("see core/utils.py", ["one/core/utils.py", paths[1]])[0] == []


def test_a_page_of_a_website_is_no_file_of_the_same_folder() -> None:
    text = "http://www.sphinx-doc.org/en/master/usage/configuration.html#confval-locale_dirs"
    assert mentions(text, ["doc/usage/configuration.html"]) == ([], [])


def test_an_installed_module_of_another_package_is_none_of_ours() -> None:
    trace = 'File "/usr/lib/python3/site-packages/werkzeug/serving/utils.py", line 3'
    assert mentions(trace, ["flask/serving/utils.py"]) == ([], [])
    assert mentions(trace, ["src/werkzeug/serving/utils.py"])[0]


def test_both_sides_of_a_diff_name_a_file_at_the_root() -> None:
    assert mentions("diff --git a/setup.py b/setup.py", ["setup.py"]) == (["setup.py"], [])
