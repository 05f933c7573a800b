"""Looking after jobs on the command line: what is shown, what is changed, and with which code it ends."""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.job_line_shop import JobShop
from tests.support.shop import Shop

pytest_plugins = ("tests.support.job_line_shop_fixture",)

ARGUMENTS = '{"secret": "SECRET PAYLOAD", "big": 123456789012345678901234567890}'


def test_a_job_is_submitted_looked_at_cancelled_and_retried_on_every_database(
    database_url: str, tmp_path: Path
) -> None:
    shop = JobShop(tmp_path, database=database_url)
    shop.create_tables()
    first = shop.jobs("submit", "reports.break", "--version", "2", "--id", "Report", "--json")
    assert (first.code, first.document["submitted_now"], first.document["state"]) == (0, True, "queued")
    assert shop.jobs("show", "report").code == 8
    assert shop.jobs("cancel", "Report", "--json").document == {"job_id": "Report", "result": "cancelled"}
    assert shop.jobs("cancel", "Report").code == 9
    assert shop.jobs("retry", "Report", "--json").document == {"job_id": "Report", "result": "queued"}
    assert shop.jobs("retry", "Report").code == 9

    shop.execute("Report")
    watched = shop.jobs("watch", "Report")
    assert (watched.code, "the tray is [red]empty\\x1b[2J\n" in watched.out) == (15, True)
    (listed,) = shop.jobs("list", "--state", "failed", "--json").document["jobs"]
    assert (listed["job_id"], listed["attempts_begun"], listed["error_code"]) == ("Report", 1, "no_paper")
    (attempt,) = shop.job("Report")["attempts"]
    assert (attempt["ordinal"], attempt["state"], attempt["error_code"]) == (1, "failed", "no_paper")
    assert shop.run("status", "shop:app", "--json").document["jobs"]["failed"] == 1
    assert shop.run("check", "shop:app").code == 0


def test_the_same_request_again_gives_the_job_that_is_there_and_another_one_is_a_conflict(
    shop: JobShop,
) -> None:
    request = ("reports.quick", "--id", "a", "--arguments", ARGUMENTS)
    stored = shop.jobs("submit", *request)
    assert (stored.code, stored.out) == (0, "Submitted job 'a', due now.\n")
    again = shop.jobs("submit", *request)
    assert (again.code, again.out) == (
        0,
        "Job 'a' was submitted before with the same request; it is queued.\n",
    )
    assert shop.jobs("submit", *request, "--json").document["submitted_now"] is False
    other = shop.jobs("submit", "reports.quick", "--id", "a", "--queue", "mail")
    assert (other.code, "another request (arguments, queue)" in other.err) == (13, True)
    as_json = json.loads(shop.jobs("submit", "reports.build", "--id", "a", "--json").err)
    assert (as_json["error"], as_json["exit_code"]) == ("identity_conflict", 13)
    assert "SECRET" not in again.out + other.err
    assert shop.jobs("submit", *request, scope="Tenant-1", stdin="").code == 0


def test_without_an_id_a_new_uuid_is_given_and_printed(shop: JobShop) -> None:
    told = [shop.jobs("submit", "reports.quick").out for _ in range(2)]
    ids = [re.findall(r"Submitted job '(.+)', due now\.", each)[0] for each in told]
    assert len({UUID(each) for each in ids}) == 2
    assert [shop.job(each)["handler"] for each in ids] == ["reports.quick"] * 2


def test_every_option_of_a_submission_is_stored(shop: JobShop) -> None:
    shop.submit(
        "a", "reports.break", "--version", "2", "--queue", "mail", "--max-attempts", "3", "--priority", "-7",
        "--not-before", "2030-01-31T10:00:00.1234567Z",
    )  # fmt: skip
    job = shop.job("a")
    assert [job[name] for name in ("handler_version", "queue", "max_attempts", "priority")] == [
        2,
        "mail",
        3,
        -7,
    ]
    assert job["not_before"] == job["next_run"] == "2030-01-31T10:00:00.1234567Z"
    shown = shop.jobs("show", "a").out
    assert re.search(r"Not before +2030-01-31 10:00:00Z *\n", shown)
    assert re.search(r"Attempts +0 begun, 3 left, at most 3 *\n", shown)
    told = shop.jobs("submit", "reports.quick", "--queue", "mail").err
    assert (
        "Its queue 'mail' is none of this App's (default); `jobs MODULE:APP --queue mail` serves it." in told
    )


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (["report.quick"], "this App has no handler 'report.quick'; did you mean 'reports.quick'?"),
        (["reports.break"], "this App has handler 'reports.break' in version 2, not in 1"),
    ],
)
def test_a_handler_that_the_app_does_not_have_is_submitted_only_when_that_is_meant(
    shop: JobShop, handler: list[str], told: str
) -> None:
    refused = shop.jobs("submit", *handler, "--id", "a")
    assert (refused.code, told in refused.err, "--unknown-handler" in refused.err) == (2, True, True)
    assert shop.jobs("show", "a").code == 8
    meant = shop.jobs("submit", *handler, "--id", "a", "--unknown-handler")
    assert (meant.code, f"warning: {told}" in meant.err) == (0, True)
    again = shop.jobs("submit", *handler, "--id", "a", "--unknown-handler", "--json")
    assert (again.document["handler_known"], again.err) == (False, "")


def test_arguments_come_from_the_line_a_file_or_stdin_as_exact_text(shop: JobShop) -> None:
    (shop.directory / "arguments.json").write_bytes(b"\xef\xbb\xbf " + ARGUMENTS.encode() + b"\n")
    shop.submit("a", "reports.quick", "--arguments", ARGUMENTS)
    shop.submit("a", "reports.quick", "--arguments-file", "arguments.json")
    assert (
        shop.jobs(
            "submit", "reports.quick", "--id", "a", "--arguments-file", "-", stdin=f"{ARGUMENTS}\n"
        ).code
        == 0
    )
    shown = shop.jobs("show", "a", "--arguments")
    assert shown.out.endswith(f"\nArguments\n{ARGUMENTS}\n")
    assert shop.jobs("show", "a", "--arguments", "--json").document["arguments_json"] == ARGUMENTS
    for command in (["list"], ["show", "a"], ["list", "--json"], ["show", "a", "--json"]):
        assert "SECRET" not in shop.jobs(*command).out


@pytest.mark.parametrize(
    ("options", "stdin", "told"),
    [
        (["--arguments", "{"], "", "--arguments"),
        (["--arguments", "NaN"], "", "is not JSON"),
        (["--arguments-file", "-"], "", "is not JSON"),
        (["--arguments-file", "-"], f'"{"x" * 1_048_576}"', "is longer than 1048576 bytes"),
        (["--arguments-file", "missing.json"], "", "'missing.json' cannot be read: No such file"),
        (["--arguments-file", "."], "", "'.' cannot be read: Is a directory"),
        (["--arguments", "1", "--arguments-file", "-"], "1", "not both"),
        (["--id", " "], "", "must not be blank"),
        (["--queue", "a b"], "", "--queue"),
        (["--max-attempts", "101"], "", "--max-attempts"),
        (["--not-before", "2h"], "", "'2h' is no moment; expected 2026-01-31 or"),
        (["--not-before", "0001-01-01T00:00:00+05:00"], "", "is no moment"),
    ],
)
def test_a_submission_that_can_be_none_is_wrong_usage(
    shop: JobShop, options: list[str], stdin: str, told: str
) -> None:
    refused = shop.jobs("submit", "reports.quick", *options, stdin=stdin)
    assert (refused.code, told in _unwrapped(refused.err)) == (2, True)
    assert shop.jobs("list").out == "This scope has no jobs; scopes are compared exactly.\n"


def test_a_list_goes_page_by_page_and_ends_with_the_last_job(shop: JobShop) -> None:
    for number in range(4):
        shop.submit(f"job {number}")
    seen: list[str] = []
    cursor: list[str] = []
    for _ in range(2):
        page = shop.jobs("list", "--limit", "2", *cursor, "--json").document
        seen += [each["job_id"] for each in page["jobs"]]
        cursor = ["--cursor", str(page["next_cursor"])]
    assert (seen, cursor[1]) == (["job 3", "job 2", "job 1", "job 0"], "None")
    assert re.search(r"There are more: --cursor \S+\n", shop.jobs("list", "--limit", "3").err)
    assert "There are more" not in shop.jobs("list", "--limit", "4").err
    for wrong in ("x", "WzEsMV0=", "WzEsICJcdTAwMDAiXQ=="):
        refused = shop.jobs("list", "--cursor", wrong)
        assert (refused.code, "not a cursor of the list of jobs" in refused.err) == (2, True)


def test_filters_narrow_the_list_and_an_empty_one_says_why(shop: JobShop) -> None:
    shop.submit("a", "reports.build")
    shop.submit("b", "reports.quick", "--queue", "mail")
    shop.jobs("cancel", "b")

    def listed(*options: str) -> list[str]:
        return [each["job_id"] for each in shop.jobs("list", *options, "--json").document["jobs"]]

    assert listed("--handler", "reports.build") == listed("--state", "queued") == ["a"]
    assert listed("--queue", "mail", "--since", "1h") == ["b"]
    assert listed("--state", "queued", "--state", "cancelled", "--until", "2100-01-01") == ["b", "a"]
    assert listed("--until", "2026-01-01T00:00:00Z", "--since", "7d") == []
    assert shop.jobs("list", "--queue", "none").out == "No job of this scope matches.\n"
    assert (
        shop.jobs("list", scope="tenant-1 ").out == "This scope has no jobs; scopes are compared exactly.\n"
    )
    for option, value in [("--queue", "a\x00"), ("--handler", "ü"), ("--since", "soon"), ("--state", "lost")]:
        assert shop.jobs("list", option, value).code == 2


def test_a_table_shows_states_attempts_and_times_to_the_second(shop: JobShop) -> None:
    shop.submit("queued", "reports.quick", "--not-before", "2030-01-31T10:00:00.9Z")
    once = ("--max-attempts", "1", "--not-before", "2020-01-31")
    shop.submit("failed", "reports.break", "--version", "2", *once)
    shop.execute("failed")
    rows = [re.split(r"  +", row.strip()) for row in shop.jobs("list").out.splitlines()]
    assert rows[0] == ["Job id", "State", "Handler", "Queue", "Attempts", "Progress", "Due or ended", "Error"]
    assert rows[2] == [
        "queued",
        "queued",
        "reports.quick v1",
        "default",
        "0 begun, 5 left",
        "2030-01-31 10:00:00Z",
    ]
    assert rows[1][:5] == ["failed", "failed", "reports.break v2", "default", "1 begun, 0 left"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", rows[1][5])
    assert not rows[1][5].startswith("2020")
    assert rows[1][6] == "no_paper"
    assert re.fullmatch(r"[-0-9]{10}T[:0-9]{8}\.\d{7}Z", shop.job("failed")["completed"])


def test_retrying_says_when_it_is_due_and_what_to_do_when_no_attempt_is_left(shop: JobShop) -> None:
    for job_id, attempts in [("again", "2"), ("once", "1")]:
        shop.submit(job_id, "reports.break", "--version", "2", "--max-attempts", attempts)
    shop.execute("again", "once")
    later = shop.jobs("retry", "again", "--at", "2030-01-31T10:00:00Z")
    assert (later.code, later.out) == (0, "Job 'again' is queued again, due 2030-01-31 10:00:00Z.\n")
    assert shop.job("again")["next_run"] == "2030-01-31T10:00:00.0000000Z"
    used_up = shop.jobs("retry", "once")
    assert (used_up.code, "submit` the request under another id" in used_up.err) == (14, True)
    assert json.loads(shop.jobs("retry", "once", "--json").err)["error"] == "no_attempts_left"
    assert shop.jobs("retry", "once", "--at", "tomorrow").code == 2
    ended = shop.jobs("cancel", "once")
    assert (ended.code, "`jobs show` tells how it ended" in ended.err) == (9, True)


@pytest.mark.parametrize("command", ["show", "cancel", "retry", "watch"])
def test_a_job_of_another_scope_is_not_found(shop: JobShop, command: str) -> None:
    shop.submit("a")
    for job_id, scope in [("a", "Tenant-1"), ("A", "tenant-1")]:
        missing = shop.jobs(command, job_id, scope=scope)
        assert (missing.code, missing.out) == (8, "")
        assert f"there is no job '{job_id}' in this scope; `jobs list` shows" in missing.err
    assert shop.jobs(command, "a\x00").code == shop.jobs(command, "a", scope="\udcff").code == 2
    assert shop.run("jobs", command, "shop:app", "a").code == 2
    assert shop.job("a")["state"] == "queued"


HOSTILE = [
    "[red]x[/red]",
    'it\'s "so"',
    "a\nerror: b",
    "\x1b[2J\x1b]0;owned\x07",
    ":key:",
    "\u202egnp.exe",
    "\x9b2J",
]


@pytest.mark.parametrize("job_id", HOSTILE)
def test_hostile_ids_and_scopes_are_shown_harmlessly(shop: JobShop, job_id: str) -> None:
    scope = job_id
    request = ("reports.quick", "--id", job_id, "--arguments", json.dumps([job_id], ensure_ascii=False))
    shown = [
        shop.jobs(*command, scope=scope)
        for command in (
            ("submit", *request),
            ("submit", *request),
            ("list",),
            ("show", job_id, "--arguments"),
            ("watch", job_id, "--timeout", "0"),
            ("cancel", job_id),
            ("cancel", job_id),
            ("retry", job_id, "--at", "2100-01-01"),
            ("retry", job_id),
        )
    ]
    assert [each.code for each in shown] == [0, 0, 0, 0, 16, 0, 9, 0, 9]
    text = "".join(each.out + each.err for each in shown)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "\nerror: b" not in text
    visible = job_id.encode("unicode_escape").decode() if not job_id.isprintable() else job_id
    assert visible in shown[2].out
    assert visible in shown[3].out
    assert repr(job_id) in shown[5].out
    assert shop.jobs("list", "--json", scope=scope).document["jobs"][0]["job_id"] == job_id


def test_status_shows_queues_of_jobs_and_how_many_ended_without_success(shop: JobShop) -> None:
    shop.submit("due")
    shop.submit("later", "reports.quick", "--queue", "mail", "--not-before", "2100-01-01")
    shop.submit("cancelled")
    shop.jobs("cancel", "cancelled")
    told = shop.run("status", "shop:app").out
    assert re.search(r"^default +1 +0 +\d+\.\d s *$", told, re.MULTILINE)
    assert re.search(r"^mail +1 +0 *$", told, re.MULTILINE)
    assert told.endswith("jobs that failed 0, were cancelled 1, were interrupted 0\n")
    document = shop.run("status", "shop:app", "--json").document["jobs"]
    assert document["queues"]["mail"] == {"queued": 1, "running": 0, "oldest_due_age_seconds": None}
    assert document["queues"]["default"]["oldest_due_age_seconds"] >= 0
    assert (document["failed"], document["cancelled"], document["interrupted"]) == (0, 1, 0)


def test_an_app_without_tables_of_jobs_has_no_jobs_and_is_told_how_to_get_them(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    source = tmp_path / "shop.py"
    source.write_text(source.read_text().replace("tables(metadata)", "tables(metadata, jobs=False)"))
    shop.create_tables()
    assert "jobs" not in shop.run("status", "shop:app", "--json").document
    assert "jobs" not in shop.run("status", "shop:app").out
    for command in (["list", "shop:app", "--scope", "s"], ["shop:app"]):
        refused = shop.run("jobs", *command)
        assert (refused.code, "relay.add_messaging_tables(metadata)" in refused.err) == (3, True)


def test_a_schema_without_tables_of_jobs_is_told_before_anything_is_done(tmp_path: Path) -> None:
    shop = JobShop(tmp_path)
    (tmp_path / "shop.db").touch()
    for command in ("list", "show a", "submit reports.quick", "cancel a", "retry a", "watch a"):
        name, *rest = command.split()
        refused = shop.jobs(name, *rest)
        assert (refused.code, "missing table: jobs_job" in refused.err) == (5, True)


def _unwrapped(panel: str) -> str:
    """The text of an error that was drawn in a box."""
    return re.sub(r"\s+", " ", re.sub(r"[│╭╮╰╯─]", "", panel))
