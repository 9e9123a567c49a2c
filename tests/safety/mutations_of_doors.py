"""Protections on the host: of the web server, of what is parsed, and of git repositories.

Their attacks are tests elsewhere, by their whole paths; none of them needs a container.
"""

from __future__ import annotations

from typing import Final

from tests.safety.mutation import Protection

DOOR: Final = "bot/server/connections.py"
BUNDLE: Final = "pipeline/bundle.py"
COMMIT: Final = "pipeline/codebase/commit.py"
EXTERNAL: Final = "pipeline/edits/external.py"
AT_THE_DOOR: Final = "tests/e2e/webhook/test_door.py"
OF_BUNDLES: Final = "tests/unit/pipeline/bundle/test_read.py"
OF_CODE: Final = "tests/unit/pipeline/codebase/test_reader_process.py"
OF_COMMITS: Final = "tests/unit/pipeline/codebase/test_commit.py"
OF_EDITS: Final = "tests/unit/pipeline/edits/test_external.py"
OF_RECORDS: Final = "tests/unit/pipeline/regression/test_results.py"
OF_TEXTS: Final = "tests/unit/bot/admission/test_issue_text.py"
HOSTILE_FILES: Final = "tests/unit/sandbox/environment/test_hostile_files.py"


def wall(name: str, path: str, old: str, new: str, test: str) -> Protection:
    return Protection(name, "", ((path, old, new),), (test,))


DOORS: Final = (
    wall(
        "signature before the body",
        "bot/server/app.py",
        "            payload.check_form(signature)\n",
        "",
        f"{AT_THE_DOOR}::test_without_a_well_formed_signature_no_body_is_waited_for",
    ),
    wall(
        "deadline of headers",
        DOOR,
        "self.loop.call_later(HEADER_SECONDS,",
        "self.loop.call_later(86_400,",
        f"{AT_THE_DOOR}::test_slow_headers_and_bodies_are_cut_off",
    ),
    wall(
        "deadline of bodies",
        DOOR,
        "asyncio.timeout(BODY_SECONDS)",
        "asyncio.timeout(86_400)",
        f"{AT_THE_DOOR}::test_slow_headers_and_bodies_are_cut_off",
    ),
    wall(
        "memory of bodies",
        DOOR,
        "        if size > self._left:\n",
        "        if False:\n",
        f"{AT_THE_DOOR}::test_many_large_bodies_take_no_more_memory_than_there_is_for_them",
    ),
    wall(
        "limit of connections",
        DOOR,
        "if len(self.connections) > MAX_CONNECTIONS:",
        "if False:",
        f"{AT_THE_DOOR}::test_a_full_server_lets_go_of_the_one_that_waits_longest",
    ),
    wall(
        "limit of idle connections",
        DOOR,
        "        self.waiting[self] = None\n        request",
        "        request",
        f"{AT_THE_DOOR}::test_idle_connections_do_not_keep_honest_ones_out",
    ),
    wall(
        "reading of answers",
        DOOR,
        "self.loop.call_later(READ_SECONDS,",
        "self.loop.call_later(86_400,",
        f"{AT_THE_DOOR}::test_a_client_that_does_not_read_is_cut_off",
    ),
    wall(
        "memory of unread answers",
        DOOR,
        "            if total <= MAX_UNREAD_BYTES:\n",
        "            if True:\n",
        f"{AT_THE_DOOR}::test_answers_that_nobody_reads_take_no_more_memory_than_there_is_for_them",
    ),
    wall(
        "requests that wait for no answer",
        DOOR,
        "return bool(self.conn.trailing_data[0])",
        "return False",
        f"{AT_THE_DOOR}::test_clients_that_do_not_read_do_not_keep_honest_ones_out",
    ),
    wall(
        "one length of a request",
        DOOR,
        'if scope["type"] == "http" and {b"transfer-encoding", b"content-length"} <= names:',
        "if False:",
        f"{AT_THE_DOOR}::test_a_request_with_two_ends_hides_no_other",
    ),
    wall(
        "settings in a process",
        "bot/repo_config/untrusted.py",
        "    if len(text) <= SMALL:\n",
        "    if True:\n",
        "tests/unit/bot/repo_config/test_model.py"
        "::test_a_file_of_mistakes_is_described_in_part_and_in_little_time",
    ),
    wall(
        "records in a process",
        "pipeline/regression/runner.py",
        "if await asyncio.to_thread(_is_small, execution, mark):",
        "if True:",
        f"{OF_RECORDS}::test_records_that_cost_too_much_tell_no_test_apart",
    ),
    wall(
        "size of a section",
        "pipeline/regression/results.py",
        "reader.decompress(packed, max(most, 1))",
        "reader.decompress(packed)",
        f"{OF_RECORDS}::test_a_section_that_unpacks_without_end_is_dropped",
    ),
    wall(
        "result of a run of tests",
        "pipeline/regression/runner.py",
        "        if len(answer) <= MOST_KEPT:\n",
        "        if True:\n",
        f"{OF_RECORDS}::test_records_that_unpack_to_more_than_can_be_kept_are_refused",
    ),
    wall(
        "results of the wrapper alone",
        "pipeline/regression/results.py",
        "if found and not self._is_only_ours(",
        "if False and not self._is_only_ours(",
        f"{OF_RECORDS}::test_results_that_the_wrapper_did_not_print_alone_are_not_believed",
    ),
    wall(
        "own tests made to fail",
        "pipeline/regression/compare.py",
        "if set(before.own_failed) & set(after.own_passed):",
        "if False:",
        "tests/unit/pipeline/regression/test_suite.py"
        "::test_an_edit_that_forges_what_is_recorded_breaks_the_control",
    ),
    wall(
        "code in a process",
        "pipeline/selection/scoring/lexing.py",
        "READER.call(lex_in_process, json.dumps([text, path, local_from]).encode())",
        "lex_in_process(json.dumps([text, path, local_from]).encode())",
        f"{OF_CODE}::test_code_that_takes_gigabytes_to_parse_is_split_as_plain_text",
    ),
    wall(
        "size of a text",
        COMMIT,
        "            if file and file.regular and file.size <= min(largest, most):\n",
        "            if file and file.regular:\n",
        f"{OF_COMMITS}::test_ordinary_files_of_unusual_size_are_not_read_as_text",
    ),
    wall(
        "bytes of a commit",
        COMMIT,
        "            if left < 0:\n",
        "            if False:\n",
        f"{OF_COMMITS}::test_a_commit_that_unpacks_without_end_is_refused_before_it_is_held",
    ),
    wall(
        "size of a file",
        COMMIT,
        "    if file.size > LARGEST_FILE:\n",
        "    if False:\n",
        f"{OF_COMMITS}::test_a_commit_that_unpacks_without_end_is_refused_before_it_is_held",
    ),
    wall(
        "size of a branch's diff",
        EXTERNAL,
        "if await _measure(git_dir, blobs) > content:",
        "if False:",
        f"{OF_EDITS}::test_commits_whose_files_are_too_large_are_not_even_compared",
    ),
    wall(
        "files of a branch's diff",
        EXTERNAL,
        "if len(blobs) > 2 * MOST_FILES:",
        "if False:",
        f"{OF_EDITS}::test_a_branch_is_measured_by_its_paths",
    ),
    wall(
        "headers of a bundle",
        BUNDLE,
        "        if info.size > _EXTENSION:\n",
        "        if False:\n",
        f"{OF_BUNDLES}::test_a_header_that_unpacks_without_end_is_refused_before_it_is_read",
    ),
    wall(
        "documents of a bundle",
        BUNDLE,
        "if size > LARGEST_DOCUMENT or left < 0 or len(found) >= MOST_DOCUMENTS:",
        "if False:",
        f"{OF_BUNDLES}::test_a_document_of_unreasonable_size_is_refused_before_it_is_read",
    ),
    wall(
        "hidden text",
        "bot/visible_text.py",
        "    clean = nh3.clean(\n",
        "    return text\n    clean = nh3.clean(\n",
        f"{OF_TEXTS}::test_what_a_reader_does_not_see_the_model_does_not_see",
    ),
    wall(
        "hidden parts of formulas",
        "bot/visible_text.py",
        "            return hide_math(data)\n",
        "            return data\n",
        f"{OF_TEXTS}::test_what_only_looks_like_code_hides_no_comment_from_us",
    ),
    wall(
        "text that is too small",
        "bot/visible_text.py",
        "        if self._shrunk > _MOST_SHRUNK:\n",
        "        if False:\n",
        f"{OF_TEXTS}::test_what_only_looks_like_code_hides_no_comment_from_us",
    ),
    wall(
        "references between settings of tox",
        "pipeline/languages/python/tox_nox.py",
        "MOST_DEPTH = 5\n",
        "MOST_DEPTH = 3\nMOST_LINES = 10**9\n",
        f"{HOSTILE_FILES}::test_reading_takes_time_in_proportion_to_the_file",
    ),
    wall(
        "bytes of all files of an installation",
        "pipeline/languages/detect.py",
        "if member.size > min(most, left, left_for_ci if is_ci else left):",
        "if member.size > most:",
        f"{HOSTILE_FILES}::test_many_files_are_read_up_to_a_size_in_all",
    ),
    wall(
        "dots of all keys",
        "pipeline/languages/manifests.py",
        " or sum(count * count for count in dots) > MOST_SQUARES:",
        ":",
        f"{HOSTILE_FILES}::test_dotted_keys_of_many_lines_are_not_read",
    ),
    wall(
        "arguments of a Dockerfile",
        "sandbox/environment/dockerfile.py",
        "if len(instruction.rest) > MOST_CHARACTERS:",
        "if False:",
        f"{HOSTILE_FILES}::test_arguments_of_a_dockerfile_do_not_multiply",
    ),
)
"""A whole path of a test begins with `tests/`."""

BY_EDITS: Final = (
    Protection(
        "nonce of a script and controls",
        "",
        (
            (
                "sandbox/execution/jobs.py",
                'if execution.exit_code == 0 and "0" not in reached:',
                "if False:",
            ),
            (
                "pipeline/selection/controls.py",
                "        kept = [c for c, result in enumerate(results) if not result.problem]\n",
                "        results = [ControlResult()] * len(results)\n"
                "        kept = [c for c, result in enumerate(results) if not result.problem]\n",
            ),
        ),
        (
            "tests/e2e/cli/test_select_attacks.py"
            "::test_an_edit_that_ends_the_interpreter_does_not_beat_the_repair",
        ),
    ),
    wall(
        "an edit's own test does not decide",
        "pipeline/selection/controls.py",
        "if test.text not in independent and own and passing and passing <= own:",
        "if False:",
        "tests/e2e/cli/test_select_attacks.py::test_the_test_that_an_edit_brings_does_not_choose_it",
    ),
)
"""These attacks need Docker, and prepare their own environment."""
