"""The orders example, with its processes, its kill and its operator, as `make demo` runs it."""

from pathlib import Path

import pytest

from tests.house.orders_demo import check_story, run_demo


@pytest.mark.timeout(300)
def test_the_demo_ends_with_agreeing_sums_on_sqlite_without_a_broker(tmp_path: Path) -> None:
    check_story(run_demo(tmp_path))
