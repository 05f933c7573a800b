"""The README's first program is short, and does what the README says."""

import re
from pathlib import Path

from tests.house.programs import run_python, run_until_printed
from tests.house.source import ROOT


def first_program() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## First program", 1)[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def test_the_first_program_has_fewer_than_40_lines() -> None:
    assert len(first_program().splitlines()) < 40


def test_the_first_program_stores_an_order_and_its_consumer_hears_of_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(first_program(), encoding="utf-8")
    run_python("shop.py", directory=tmp_path)
    code = run_until_printed(
        "Thank you for ordering a book", "-m", "relay", "run", "shop:app", directory=tmp_path
    )
    assert code == 0


def test_an_app_that_reads_its_settings_takes_the_options_that_the_readme_names() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippets = [
        each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "read_settings()" in each
    ]
    assert snippets
    assert all("options=settings.options" in each for each in snippets)
