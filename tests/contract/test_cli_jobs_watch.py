"""Watching a job on the command line while its progress moves, in a pipe and on a terminal."""

import json
import os
import pty
import re
import signal
import subprocess
from itertools import pairwise

from tests.support.job_line_shop import SCOPE, JobShop
from tests.support.shop import read_line

pytest_plugins = ("tests.support.job_line_shop_fixture",)


def watching(shop: JobShop, *options: str) -> subprocess.Popen[str]:
    return shop.begin("jobs", "watch", "shop:app", "a", "--scope", SCOPE, "--interval", "0.05", *options)


def test_each_change_is_a_line_until_the_job_has_succeeded(shop: JobShop) -> None:
    shop.submit("a", "reports.build")
    watcher = watching(shop)
    lines = [read_line(watcher.stdout, "queued  waits for attempt 1 of 5")]
    executor = shop.begin("jobs", "shop:app")
    lines.append(read_line(watcher.stdout, "running  attempt 1 of 5  10 %  waits for half"))
    (shop.directory / "half").touch()
    lines.append(read_line(watcher.stdout, "running  attempt 1 of 5  50 %  waits for full"))
    (shop.directory / "full").touch()
    lines.append(
        read_line(watcher.stdout, "succeeded  attempt 1 of 5  50 %  waits for full  result report-1")
    )
    out, err = watcher.communicate(timeout=30)
    assert (watcher.returncode, out, err) == (0, "", "")
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  [a-z]", line) for line in lines)
    executor.send_signal(signal.SIGTERM)
    assert executor.wait(30) == 0


def test_with_json_each_change_is_an_object_and_heartbeats_are_none(shop: JobShop) -> None:
    shop.submit("a", "reports.build")
    watcher = watching(shop, "--json")
    read_line(watcher.stdout, '"state":"queued"')
    shop.begin("jobs", "shop:app")
    told = [json.loads(read_line(watcher.stdout, '"progress_percent":10'))]
    (shop.directory / "full").touch()
    (shop.directory / "half").touch()
    out, _ = watcher.communicate(timeout=30)
    told += [json.loads(line) for line in out.splitlines()]
    assert (watcher.returncode, told[-1]["state"], told[-1]["result_reference"]) == (
        0,
        "succeeded",
        "report-1",
    )
    changes = [{**each, "heartbeat": None, "lease_expires": None} for each in told]
    assert all(one != other for one, other in pairwise(changes))
    assert re.fullmatch(r"[-0-9]{10}T[:0-9]{8}\.\d{7}Z", told[-1]["completed"])


def test_the_exit_code_tells_how_the_job_ended(shop: JobShop) -> None:
    shop.submit("failed", "reports.break", "--version", "2", "--max-attempts", "1")
    shop.submit("cancelled")
    shop.jobs("cancel", "cancelled")
    shop.execute("failed")
    failed = shop.jobs("watch", "failed")
    assert (failed.code, "no attempts are left; `jobs submit`" in failed.err) == (15, True)
    cancelled = shop.jobs("watch", "cancelled", "--json")
    assert (cancelled.code, cancelled.document["state"]) == (15, "cancelled")
    told = json.loads(cancelled.err)
    assert (told["error"], "`jobs retry` queues it again (5 attempts left)" in told["message"]) == (
        "not_succeeded",
        True,
    )


def test_a_watch_that_takes_too_long_leaves_the_job_alone(shop: JobShop) -> None:
    shop.submit("a", "reports.quick", "--not-before", "2100-01-01")
    left = shop.jobs("watch", "a", "--timeout", "0.1", "--interval", "0.05")
    assert (left.code, "has not ended within 0.1 s and goes on" in left.err) == (16, True)
    assert left.out.count("queued  waits for attempt 1 of 5  due 2100-01-01 00:00:00Z\n") == 1
    assert shop.job("a")["state"] == "queued"


def test_a_job_that_is_deleted_meanwhile_is_not_found_any_more(shop: JobShop) -> None:
    shop.submit("a", "reports.quick", "--not-before", "2100-01-01")
    watcher = watching(shop)
    read_line(watcher.stdout, "queued")
    shop.forget("a")
    _, err = watcher.communicate(timeout=30)
    assert (watcher.returncode, "there is no job 'a' in this scope" in err) == (8, True)


def test_ctrl_c_leaves_the_watch_quietly_and_the_job_alone(shop: JobShop) -> None:
    shop.submit("a", "reports.quick", "--not-before", "2100-01-01")
    watcher = watching(shop)
    read_line(watcher.stdout, "queued")
    watcher.send_signal(signal.SIGINT)
    out, err = watcher.communicate(timeout=30)
    assert (watcher.returncode, out, err) == (130, "", "")
    assert shop.job("a")["state"] == "queued"


class Terminal:
    """A command on a terminal of its own; what it shows is read as text."""

    def __init__(self, shop: JobShop, *arguments: str) -> None:
        self._end, its = pty.openpty()
        environment = shop.environment | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "24"}
        self.process = subprocess.Popen(
            shop.command(*arguments), cwd=shop.directory, env=environment, stdin=its, stdout=its, stderr=its
        )
        os.close(its)
        self.shown = ""

    def read_until(self, text: str) -> str:
        """Everything shown so far, once it contains `text`."""
        while text not in self.shown:
            self.shown += self._more()
        return self.shown

    def read_to_the_end(self) -> int:
        """The exit code, once all is read."""
        while more := self._more(at_end=""):
            self.shown += more
        os.close(self._end)
        return self.process.wait(30)

    def _more(self, at_end: str | None = None) -> str:
        try:
            return os.read(self._end, 65_536).decode(errors="replace")
        except OSError:  # Linux: the other side is closed
            assert at_end is not None, f"it ended and showed only {self.shown!r}"
            return at_end


def test_on_a_terminal_a_bar_moves_and_one_line_stays(shop: JobShop) -> None:
    shop.submit("a", "reports.build")
    terminal = Terminal(shop, "jobs", "watch", "shop:app", "a", "--scope", SCOPE, "--interval", "0.05")
    terminal.read_until("waits for attempt 1 of 5")
    shop.begin("jobs", "shop:app")
    terminal.read_until("attempt 1 of 5  10 %  waits for half")
    (shop.directory / "half").touch()
    terminal.read_until("attempt 1 of 5  50 %  waits for full")
    (shop.directory / "full").touch()
    assert terminal.read_to_the_end() == 0
    assert "━" in terminal.shown
    assert terminal.shown.index("\x1b[?25l") < terminal.shown.rindex("\x1b[?25h"), "the cursor is shown again"
    after = terminal.shown[terminal.shown.rindex("\x1b[?25h") :]
    assert "'a'  succeeded  attempt 1 of 5  50 %  waits for full  result report-1" in after
    assert after.count("\n") == 1


def test_ctrl_c_on_a_terminal_gives_the_cursor_back(shop: JobShop) -> None:
    shop.submit("a\x1b[2J", "reports.quick", "--not-before", "2100-01-01")
    terminal = Terminal(shop, "jobs", "watch", "shop:app", "a\x1b[2J", "--scope", SCOPE)
    terminal.read_until("a\\x1b[2J")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.read_to_the_end() == 130
    assert "\x1b[2J" not in terminal.shown
    assert "Traceback" not in terminal.shown
    assert terminal.shown.rindex("\x1b[?25h") > terminal.shown.rindex("\x1b[?25l")
