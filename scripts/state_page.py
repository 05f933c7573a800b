"""The page docs/states.md, made from the state machines in the code; `make docs` writes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from inbox.state import TRANSITIONS as RECEIPT_TRANSITIONS
from inbox.state import ReceiptState
from jobs.state import ATTEMPT_TRANSITIONS, AttemptState, JobState
from jobs.state import TRANSITIONS as JOB_TRANSITIONS
from outbox.state import TRANSITIONS as OUTBOX_TRANSITIONS
from outbox.state import OutboxState


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachine:
    """One machine of the code, with the words that the page says about it."""

    title: str
    module: str
    subject: str
    first: StrEnum
    transitions: Mapping[Any, frozenset[Any]]
    meanings: Mapping[Any, str]


MACHINES: Final = (
    StateMachine(
        title="Outbox",
        module="outbox.state",
        subject="One row per event. The commit of the business stores it; the relay moves it on.",
        first=OutboxState.PENDING,
        transitions=OUTBOX_TRANSITIONS,
        meanings={
            OutboxState.PENDING: "waits for a relay, now or after a back-off",
            OutboxState.PUBLISHING: "a relay holds it under a lease; an expired lease may be taken over",
            OutboxState.PUBLISHED: "the broker confirmed it; deleted after the retention",
            OutboxState.DEAD_LETTERED: "given up; waits for an operator, never deleted by itself",
            OutboxState.DISCARDED: "an operator decided that it will not be sent; kept as a record",
        },
    ),
    StateMachine(
        title="Inbox",
        module="inbox.state",
        subject="One receipt per message and consumer. The commit of the handler completes it.",
        first=ReceiptState.RECEIVED,
        transitions=RECEIPT_TRANSITIONS,
        meanings={
            ReceiptState.RECEIVED: "handed over and not yet taken",
            ReceiptState.PROCESSING: "a handler runs under a lease; an expired lease may be taken over",
            ReceiptState.PROCESSED: "the effects are committed; later deliveries are duplicates",
            ReceiptState.FAILED: "the last attempt failed; the next one is scheduled",
            ReceiptState.DEAD_LETTERED: "given up; waits for an operator, never deleted by itself",
            ReceiptState.DISCARDED: "an operator decided that it will not be processed; kept as a record",
        },
    ),
    StateMachine(
        title="Job",
        module="jobs.state",
        subject="One row per operation that someone wants done. A retry is a new attempt of the same job.",
        first=JobState.QUEUED,
        transitions=JOB_TRANSITIONS,
        meanings={
            JobState.QUEUED: "waits for an executor, now or at its time",
            JobState.RUNNING: "an attempt runs under a token and a lease",
            JobState.SUCCEEDED: "done",
            JobState.FAILED: "its last attempt failed and no other follows by itself",
            JobState.CANCELLED: "someone asked for its end before it was done; it has no result",
            JobState.INTERRUPTED: "its last attempt ended from outside and no other follows by itself",
        },
    ),
    StateMachine(
        title="Attempt",
        module="jobs.state",
        subject="One row per execution of a job, changed in the same statement or transaction as its job.",
        first=AttemptState.RUNNING,
        transitions=ATTEMPT_TRANSITIONS,
        meanings={
            AttemptState.RUNNING: "the job carries its token",
            AttemptState.SUCCEEDED: "its handler has succeeded",
            AttemptState.FAILED: "its handler has failed",
            AttemptState.CANCELLED: "it ended, in whatever way, after a cancellation had been asked for",
            AttemptState.INTERRUPTED: "it ended without a verdict: a shutdown, a dead executor, a lost lease",
        },
    ),
)


def state_page() -> str:
    """The whole page as Markdown."""
    head = (
        "# States\n\n"
        "Made by `make docs` from the `state.py` of each package; a test compares. Every move is one\n"
        "conditional statement that carries the lease token and the expected state, so of two owners only\n"
        "one succeeds.\n"
    )
    return "\n".join([head, *(_section(machine) for machine in MACHINES)])


def _section(machine: StateMachine) -> str:
    arrows = [f"    [*] --> {machine.first}"]
    rows = []
    for state, targets in machine.transitions.items():
        # Declaration order, not set order: the page must come out the same every time.
        ordered = [target for target in machine.transitions if target in targets]
        arrows += [f"    {state} --> {target}" for target in ordered]
        following = ", ".join(f"`{target}`" for target in ordered) or "nothing: final"
        rows.append(f"| `{state}` | {machine.meanings[state]} | {following} |")
    return "\n".join(
        [
            f"## {machine.title} (`{machine.module}`)\n",
            f"{machine.subject}\n",
            "```mermaid",
            "stateDiagram-v2",
            *arrows,
            "```\n",
            "| state | meaning | moves to |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    print(state_page(), end="")
