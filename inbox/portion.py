"""Cutting what one call stores into statements of bounded size."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

PORTION_ROWS: Final = 1000
PORTION_PAYLOAD_UNITS: Final = 4 * 1_048_576
"""Under 16 MiB, which a MySQL server takes for one statement by default, whatever the characters."""

Row = dict[str, Any]


def portions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """`rows` in their order; every batch of usual size is one portion."""
    portion: list[Row] = []
    units = 0
    for row in rows:
        length = len(row["payload"])
        if portion and (len(portion) == PORTION_ROWS or units + length > PORTION_PAYLOAD_UNITS):
            yield portion
            portion, units = [], 0
        portion.append(row)
        units += length
    if portion:
        yield portion
