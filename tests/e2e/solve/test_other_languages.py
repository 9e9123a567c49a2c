"""A project that only make knows: from the label to the pull request."""

from __future__ import annotations

from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import StartBot

FILES = {
    "Makefile": (
        "all:\n\tcp till.sh built.sh\n\ntest: all\n"
        "\t@. ./built.sh && test \"$$(count a b)\" = 2 && echo 'ok 1 - count'\n"
    ),
    "till.sh": "total() {\n  echo $(($1 - $2))\n}\ncount() {\n  echo $#\n}\n",
    ".github/capuchin.yml": shop.ONE_SAMPLE,
}
SCRIPT = """\
<script>
. ./built.sh
echo "total 1 2 is $(total 1 2)"
[ "$(total 1 2)" = 3 ] && exit 0
exit 86
</script>
"""
WORDS = """\
<title>Make total add</title>
<cause>total subtracted its second argument.</cause>
<change>It adds now.</change>
"""


async def test_a_makefile_project_goes_from_label_to_pull_request(
    start_recorded_bot: StartBot,
) -> None:
    recording = shop.answers(
        RecordedAnswer(call="ranking", reply="<ranking>\ntill.sh\n</ranking>"),
        RecordedAnswer(call="testing", turn=0, reply=SCRIPT),
        RecordedAnswer(
            call="editing/0",
            turn=0,
            reply=shop.edit("  echo $(($1 + $2))", path="till.sh", before="  echo $(($1 - $2))"),
        ),
        RecordedAnswer(call="reproduction", reply=WORDS),
    )
    async with start_recorded_bot(recording) as bot:
        repo = bot.add_repo(files=FILES)
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        branch, body = bot.only_pull_request(repo)
        assert "$1 + $2" in (repo.read_file(branch, "till.sh") or "")
        # What the build writes is nobody's edit; the script is the test.
        assert repo.read_file(branch, "built.sh") is None
        assert "reproduce_total_subtracts.sh" in body
