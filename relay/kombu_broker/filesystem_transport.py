"""kombu's filesystem transport without torn reads, and for any consumer name."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from kombu.transport import filesystem
from kombu.utils.json import dumps

from relay.broker import TopologyError

_LONGEST_FILE_NAME_BYTES: Final = 255
_ROOM_FOR_THE_REST: Final = 70


def file_name_of(queue: str) -> str:
    """The queue name as it stands in file names: characters that a file name cannot hold are escaped.

    Raises TopologyError when it would be too long for a file.
    """
    name = quote(queue, safe="")
    longest = _LONGEST_FILE_NAME_BYTES - _ROOM_FOR_THE_REST
    if len(name) > longest:
        raise TopologyError(
            f"the queue name {queue!r} takes {len(name)} bytes in a file name, at most {longest} fit"
        )
    return name


class FilesystemChannel(filesystem.Channel):  # type: ignore[misc] # kombu is untyped
    """Messages and binding tables appear whole: written beside, then moved to their name.

    kombu writes them in place, and a reader that comes in between takes an empty file for a message.
    """

    def _put(self, queue: str, payload: Any, **_options: Any) -> None:
        folder = Path(self.data_folder_out)
        name = f"{time.monotonic_ns() // 1000:016d}_{uuid4()}.{queue}.msg"
        unfinished = folder / f"{name}.part"
        unfinished.write_text(dumps(payload), encoding="utf-8")
        unfinished.replace(folder / name)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        table: Path = self._exchange_file(exchange)
        if not table.exists():
            empty = table.with_name(f"{table.name}.{uuid4().hex}")
            empty.write_text("[]", encoding="utf-8")
            with contextlib.suppress(FileExistsError):
                os.link(empty, table)
            empty.unlink()
        super()._queue_bind(exchange, routing_key, pattern, queue)


class FilesystemTransport(filesystem.Transport):  # type: ignore[misc] # kombu is untyped
    """kombu's transport with our channel."""

    Channel = FilesystemChannel
