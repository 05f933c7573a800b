"""What the written pages say agrees with the code, and the checkout names no machine."""

import re

import pytest

from scripts.state_page import MACHINES, state_page
from tests.house.source import ROOT, modules, tracked_files

# In pieces, so that this file does not contain what it looks for.
MACHINE_PATHS = re.compile("/" + r"(work|root|home/[a-z]\w*|tmp/design|tmp/venv)/")
TEXT_ENDINGS = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".json", ".ndjson", ".txt", ".cfg", ".ini", ""}


def test_the_page_of_states_is_the_one_that_the_code_makes() -> None:
    written = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")
    assert written == state_page(), "run `make docs`"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_state_is_explained_and_can_be_reached(machine) -> None:
    states = set(type(machine.first))
    assert set(machine.transitions) == states
    assert set(machine.meanings) == states
    reached, waiting = set(), [machine.first]
    while waiting:
        state = waiting.pop()
        if state not in reached:
            reached.add(state)
            waiting += machine.transitions[state]
    assert reached == states


def test_no_file_names_a_path_of_one_machine() -> None:
    named = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix in TEXT_ENDINGS
        and MACHINE_PATHS.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert named == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]:
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        broken += [
            f"{page.name}: {target}"
            for target in targets
            if "://" not in target and not (page.parent / target).exists()
        ]
    assert broken == []


def test_the_tests_that_a_page_names_are_there() -> None:
    there = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    named = {
        name
        for page in (ROOT / "docs").glob("*.md")
        for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= there


def test_no_source_line_carries_a_ticket_or_a_reminder() -> None:
    reminder = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XXX|HACK)\b")
    found = [
        str(path.relative_to(ROOT))
        for path in modules("uow", "outbox", "inbox", "jobs", "relay", "examples")
        if reminder.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []
