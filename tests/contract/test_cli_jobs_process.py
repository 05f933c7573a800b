"""The executor of jobs as a process: what it says, what it serves, and how signals end it."""

import json
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.support.job_line_shop import JobShop
from tests.support.shop import Shop, read_line

pytest_plugins = ("tests.support.job_line_shop_fixture",)

HEALTH = ("--health-port", "0", "--health-host", "127.0.0.1")
HANDLERS = "reports.build v1, reports.quick v1, reports.break v2"


def test_the_executor_serves_its_queues_until_a_signal_ends_it_gracefully(shop: JobShop) -> None:
    shop.submit("first", "reports.quick")
    shop.submit("second", "reports.quick", "--queue", "mail")
    executor = shop.begin("jobs", "--queue", "mail", "shop:app", *HEALTH)
    port = read_line(executor.stderr, "health on port").split("port ")[1].split(":")[0]
    opening = read_line(executor.stderr, "executor of")
    assert opening.endswith(f"/shop.db, queues mail, handlers {HANDLERS}\n")
    read_line(executor.stdout, "quick second")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
        assert json.load(answer)["status"] == "ready"
    executor.send_signal(signal.SIGTERM)
    out, err = executor.communicate(timeout=30)
    assert (executor.returncode, out) == (0, "")
    assert "SIGTERM: stopping gracefully; once more ends at once\nstopped\n" in err
    assert [shop.job(each)["state"] for each in ("first", "second")] == ["queued", "succeeded"]


def test_a_second_signal_ends_the_executor_at_once(shop: JobShop) -> None:
    shop.submit("a", "reports.build")
    executor = shop.begin("jobs", "shop:app", "--json")
    while shop.job("a")["progress_percent"] is None:
        assert executor.poll() is None
    executor.send_signal(signal.SIGINT)
    assert json.loads(read_line(executor.stderr, "stopping gracefully"))["level"] == "info"
    executor.send_signal(signal.SIGTERM)
    executor.communicate(timeout=10)
    assert executor.returncode == 128 + signal.SIGTERM
    assert shop.job("a")["state"] == "running"


def test_a_cancelled_job_ends_while_its_executor_goes_on(shop: JobShop) -> None:
    shop.submit("a", "reports.build")
    executor = shop.begin("jobs", "shop:app")
    while shop.job("a")["state"] != "running":
        assert executor.poll() is None
    told = shop.jobs("cancel", "a")
    assert (told.code, "was asked to stop" in told.out) == (0, True)
    assert shop.jobs("watch", "a").code == 15
    shop.submit("b", "reports.quick")
    read_line(executor.stdout, "quick b")


def test_run_includes_the_executor_and_names_the_handlers_of_jobs(shop: JobShop) -> None:
    shop.submit("a", "reports.quick")
    shop.place(1)
    process = shop.begin("run", "shop:app")
    opening = read_line(process.stderr, "relay, consumers and executor of")
    assert opening.endswith(f"consumers billing, shipping, handlers of jobs {HANDLERS}\n")
    said = {process.stdout.readline() for _ in range(3)} if process.stdout else set()
    assert said == {"billed 1\n", "shipped 1\n", "quick a\n"}
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_an_executor_without_handlers_or_with_a_queue_that_is_none_does_not_begin(
    shop: JobShop, tmp_path: Path
) -> None:
    refused = shop.run("jobs", "shop:app", "--queue", "a b")
    assert (refused.code, "a name in queues must be 1 to 128 characters" in refused.err) == (2, True)
    Shop(tmp_path)
    nothing = shop.run("jobs", "shop:app")
    assert (nothing.code, "neither handlers of jobs nor schedules" in nothing.err) == (3, True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("lst shop:app", "No such command 'lst'; did you mean 'list'?"),
        ("wrong", "name the App as MODULE:APP, like shop.messaging:app"),
        ("list:app", "there is no module 'list'; the command is `selfmanaged jobs list MODULE:APP`"),
        ("shop:app list", "the command comes first: `selfmanaged jobs list shop:app`"),
        ("--quueue mail shop:app", "No such option: --quueue"),
        ("list shop:app", "--scope"),
        ("list", "MODULE:APP"),
    ],
)
def test_a_mistyped_line_is_told_with_the_right_one(shop: JobShop, line: str, told: str) -> None:
    wrong = shop.run("jobs", *line.split())
    text = " ".join(wrong.err.replace("│", " ").split())
    assert (wrong.code, told in text) == (2, True), text


def test_a_module_may_be_called_as_a_command_is_but_not_as_a_package_of_ours(shop: JobShop) -> None:
    (shop.directory / "list.py").write_text("from shop import app\nraise SystemExit('found it')\n")
    assert "found it" in shop.run("jobs", "list:app").err
    ours = shop.run("jobs", "jobs:app")
    assert (ours.code, "'jobs' is a package of selfmanaged and holds no App" in ours.err) == (3, True)
    (shop.directory / "jobs.py").write_text("from shop import app\n")
    foreign = shop.run("jobs", "jobs:app")
    assert (foreign.code, "has the name of one of selfmanaged's packages" in foreign.err) == (3, True)
    listed = shop.run("jobs", "list", "jobs:app", "--scope", "s")
    assert (listed.code, "Rename yours" in listed.err) == (3, True)


def test_the_help_of_the_group_shows_both_ways(shop: JobShop) -> None:
    shown = shop.run("jobs", "--help", COLUMNS="120").out
    assert shop.run("jobs", "-h", COLUMNS="120").out == shown
    for way in ("jobs [OPTIONS] MODULE:APP | COMMAND MODULE:APP ...", "selfmanaged jobs shop:app --queue"):
        assert way in shown
    for command in ("MODULE:APP", "list", "show", "submit", "cancel", "retry", "watch"):
        assert f"│ {command} " in shown
    of_executor = shop.run("jobs", "shop:app", "--help", COLUMNS="120").out
    assert ("--queue" in of_executor, "Usage: selfmanaged jobs [OPTIONS]" in of_executor) == (True, True)
