"""Running programs as a user does: a fresh interpreter, the packages importable, the output as text."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.house.source import ROOT


def environment() -> dict[str, str]:
    """This process's environment, with the checkout importable and no settings of a person's own."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SELFMANAGED_", "ORDERS_"))
    }
    return kept | {
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "COLUMNS": "140",
        "NO_COLOR": "1",
    }


def run_python(*arguments: str, directory: Path, timeout_seconds: float = 60) -> str:
    """What `python ARGUMENTS` prints, run in `directory`; the test fails unless it ends with 0."""
    run = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", *arguments],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout_seconds,
        check=False,
    )
    assert run.returncode == 0, f"exit code {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout


def run_until_printed(text: str, *arguments: str, directory: Path, timeout_seconds: float = 60) -> int:
    """Run `python ARGUMENTS` until it has printed `text`, then stop it with SIGTERM; its exit code."""
    log = directory / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=directory, env=environment(), stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + timeout_seconds
        while text not in log.read_text(encoding="utf-8", errors="replace"):
            printed = log.read_text(encoding="utf-8", errors="replace")
            assert process.poll() is None, (
                f"ended with {process.returncode} before it printed {text!r}\n{printed}"
            )
            assert time.monotonic() < deadline, f"{text!r} was not printed in {timeout_seconds} s\n{printed}"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        return process.wait(30)
    finally:
        process.kill()
        process.wait()
