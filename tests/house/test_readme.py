"""The README's programs are short, and do what the README says; its commands exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay.cli.program import program
from tests.house.programs import run_python, run_until_printed
from tests.house.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def program_of(section: str) -> str:
    """The first block of Python below this heading."""
    found = re.search(r"```python\n(.*?)```", README.split(f"\n## {section}\n", 1)[1], re.DOTALL)
    assert found
    return found[1]


def commands() -> list[tuple[str, ...]]:
    """The words of each `selfmanaged` command in the README, up to its App or its options."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    lines = re.findall(r"^selfmanaged ([a-z ]+?) (?:\w+:|-)", blocks, re.MULTILINE)
    return sorted({tuple(line.split()) for line in lines})


@pytest.mark.parametrize("section", ["First program", "Jobs"])
def test_a_program_has_fewer_than_40_lines(section: str) -> None:
    assert len(program_of(section).splitlines()) < 40


def test_the_first_program_stores_an_order_and_its_consumer_hears_of_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(program_of("First program"), encoding="utf-8")
    run_python("shop.py", directory=tmp_path)
    code = run_until_printed(
        "Thank you for ordering a book", "-m", "relay", "run", "shop:app", directory=tmp_path
    )
    assert code == 0


def test_the_program_with_a_job_stages_it_once_and_an_executor_runs_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(program_of("First program"), encoding="utf-8")
    (tmp_path / "labels.py").write_text(program_of("Jobs"), encoding="utf-8")
    for name in ("shop.py", "labels.py", "labels.py"):
        run_python(name, directory=tmp_path)
    code = run_until_printed("Label for a book", "-m", "relay", "jobs", "labels:app", directory=tmp_path)
    assert code == 0
    of_the_shop = ("-m", "relay", "jobs", "show", "labels:app", "label-1", "--scope", "shop")
    shown = run_python(*of_the_shop, directory=tmp_path)
    assert re.search(r"label-1.*\bsucceeded\b.*\b1\b", shown, re.DOTALL)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_of_the_readme_exists(command: tuple[str, ...]) -> None:
    assert CliRunner().invoke(program, [*command, "--help"]).exit_code == 0


def test_the_commands_on_jobs_are_all_there() -> None:
    assert {command[1] for command in commands() if command[0] == "jobs" and len(command) > 1} == {
        *("list", "show", "submit", "cancel", "retry", "watch"),
    }


def test_an_app_that_reads_its_settings_takes_the_options_that_the_readme_names() -> None:
    snippets = [
        each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "read_settings()" in each
    ]
    assert snippets
    assert all("options=settings.options" in each for each in snippets)
