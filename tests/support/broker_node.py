"""A RabbitMQ of our own, for what must not be done to one that others use."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.services import REQUIRE_SERVICES

_PROGRAMS = ("/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin", "/usr/local/sbin")
DELIVERY_TIMEOUT_SECONDS = 2


class RabbitNode:
    """A node that runs; `url` is where, `tls_url` with a certificate for 127.0.0.1 signed by itself."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs = programs
        self._port, self._tls_port, distribution_port = _free_port(), _free_port(), _free_port()
        self.certificate = directory / "certificate.pem"
        _write_certificate(self.certificate, directory / "key.pem")
        name = f"selfmanaged-{uuid4().hex[:8]}@localhost"
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self._port}\n"
            f"listeners.ssl.default = 127.0.0.1:{self._tls_port}\n"
            f"ssl_options.certfile = {self.certificate}\n"
            f"ssl_options.keyfile = {directory / 'key.pem'}\n"
        )
        timeout = DELIVERY_TIMEOUT_SECONDS * 1000
        (directory / "advanced.config").write_text(
            f"[{{rabbit,[{{channel_tick_interval,1000}},{{consumer_timeout,{timeout}}}]}}].\n"
        )
        self._environment = os.environ | {
            "HOME": str(directory),
            "RABBITMQ_NODENAME": name,
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(directory / "generated"),
        }
        self._log = directory / "out.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self._port}//"

    @property
    def tls_url(self) -> str:
        return f"amqps://guest:guest@127.0.0.1:{self._tls_port}//"

    def start(self) -> None:
        """Start it and wait until it speaks AMQP."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self._programs / "rabbitmq-server"],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not self._speaks():
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"a RabbitMQ of our own did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.1)

    def control(self, *arguments: str) -> None:
        """`rabbitmqctl` for this node."""
        command = [str(self._programs / "rabbitmqctl"), "-q", "-n", self._environment["RABBITMQ_NODENAME"]]
        subprocess.run([*command, *arguments], env=self._environment, check=True, capture_output=True)

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _speaks(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return connection.recv(1) == b"\x01"
        except OSError:
            return False


def rabbit_node(directory: Path) -> Iterator[RabbitNode]:
    """A node in `directory`; skips, or fails with REQUIRE_SERVICES=1, where RabbitMQ is not installed."""
    programs = _programs()
    if programs is None:
        line = "RabbitMQ's programs are not installed here; the Debian package rabbitmq-server has them"
        if REQUIRE_SERVICES:
            pytest.fail(line)
        pytest.skip(line)
    node = RabbitNode(programs, directory)
    try:
        node.start()
        yield node
    finally:
        node.kill()


def _programs() -> Path | None:
    for folder in _PROGRAMS:
        if (Path(folder) / "rabbitmq-server").exists():
            return Path(folder)
    # Debian's wrapper in the path changes to another user; the scripts themselves do not
    found = shutil.which("rabbitmq-server")
    return None if found is None or found == "/usr/sbin/rabbitmq-server" else Path(found).parent


def _write_certificate(certificate: Path, key: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
