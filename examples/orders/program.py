"""One process of the demo: started, watched, killed or stopped, its output kept in a file."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self


class ProgramFailedError(Exception):
    """A program of the demo ended otherwise than it should; the message holds the end of its output."""


class Program:
    """A child process of its own Python; leaving the `with` block kills it when it still runs."""

    def __init__(self, name: str, *arguments: str, log_directory: Path) -> None:
        self.name = name
        self._arguments = [sys.executable, *arguments]
        self._log = log_directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running().pid

    def start(self) -> Self:
        """Start it; its output is added to the log file."""
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                self._arguments, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        return self

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL, nothing can be tidied up."""
        process = self._running()
        process.kill()
        process.wait()

    def freeze(self) -> None:
        """Let it do nothing more until `thaw`, so that what is seen of it stays so."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._running().send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, with SIGTERM; then `wait` for that."""
        self._running().send_signal(signal.SIGTERM)

    def wait(self, *, timeout_seconds: float = 60) -> None:
        """Wait for its end. Raises ProgramFailedError unless it ends well in time."""
        try:
            code = self._running().wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            late = f"{self.name} still runs after {timeout_seconds:g} s"
            raise ProgramFailedError(f"{late}\n{self.tail()}") from None
        if code != 0:
            raise ProgramFailedError(f"{self.name} ended with exit code {code}\n{self.tail()}")

    def check_alive(self) -> None:
        """Raises ProgramFailedError when it has ended by itself."""
        code = self._running().poll()
        if code is not None:
            raise ProgramFailedError(f"{self.name} ended by itself with exit code {code}\n{self.tail()}")

    def tail(self, lines: int = 25) -> str:
        """The last lines of its output."""
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process


def run_command(*arguments: str, timeout_seconds: float = 60) -> str:
    """Run a command to its end and return what it printed. Raises ProgramFailedError when it fails."""
    began = time.monotonic()
    run = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, *arguments], capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    if run.returncode != 0:
        raise ProgramFailedError(
            f"{' '.join(arguments)} ended with exit code {run.returncode} after "
            f"{time.monotonic() - began:.1f} s\n{run.stdout}{run.stderr}"
        )
    return run.stdout
