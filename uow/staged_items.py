"""What one unit of work has staged so far, in order, each identity once."""

from collections.abc import Hashable

from uow.participant import Participant, Staged


class StagedItems:
    """The staged things of one unit; a part of them can be dropped again with the savepoint it belongs to."""

    def __init__(self) -> None:
        self._entries: list[tuple[Participant, Staged]] = []
        self._by_identity: dict[tuple[int, Hashable], Staged] = {}

    def add(self, participant: Participant, staged: Staged) -> Staged:
        """What is staged under this key now: the earlier one when its content is equal.

        Raises the participant's conflict error when the content differs.
        """
        identity = (id(participant), staged.key)
        earlier = self._by_identity.get(identity)
        if earlier is None:
            self._by_identity[identity] = staged
            self._entries.append((participant, staged))
            return staged
        if earlier.content != staged.content:
            raise participant.conflict(staged, earlier)
        return earlier

    def mark(self) -> int:
        """A place to come back to with `drop_after`."""
        return len(self._entries)

    def drop_after(self, mark: int) -> None:
        """Forget what was added after `mark` was taken."""
        for participant, staged in self._entries[mark:]:
            del self._by_identity[id(participant), staged.key]
        del self._entries[mark:]

    def of(self, participant: Participant) -> tuple[Staged, ...]:
        """What `participant` staged, in order."""
        return tuple(staged for owner, staged in self._entries if owner is participant)

    def keys(self) -> tuple[Hashable, ...]:
        """All identities, in order."""
        return tuple(staged.key for _, staged in self._entries)
