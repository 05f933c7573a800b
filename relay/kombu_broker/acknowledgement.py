"""Which acknowledgements one `basic.ack` may cover."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AckPlan:
    """`up_to`: acknowledge everything up to this tag at once; `single`: and these one by one."""

    up_to: int | None = None
    single: list[int] = field(default_factory=list)


class OutstandingTags:
    """The deliveries of one channel that the broker waits for, in the order in which they came.

    An acknowledgement with `multiple` covers every outstanding tag up to its own. It is therefore sent only
    for the head of the line, as far as the head is settled without a gap; what is acknowledged behind a
    gap goes one by one. Rejected and returned deliveries must be taken out first.
    """

    def __init__(self) -> None:
        self._tags: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._tags)

    def __contains__(self, tag: int) -> bool:
        return tag in self._tags

    def add(self, tag: int) -> None:
        """A delivery came; tags rise."""
        self._tags[tag] = None

    def take(self, tag: int) -> bool:
        """Remove one that is being rejected or returned; whether it was outstanding."""
        return self._tags.pop(tag, 0) is None

    def acknowledge(self, tags: Iterable[int]) -> AckPlan:
        """How to acknowledge these; tags that are not outstanding are ignored."""
        wanted = {tag for tag in tags if tag in self._tags}
        head: list[int] = []
        for tag in self._tags:
            if tag not in wanted:
                break
            head.append(tag)
        for tag in wanted:
            del self._tags[tag]
        single = sorted(wanted.difference(head))
        if len(head) < 2:
            return AckPlan(None, head + single)
        return AckPlan(head[-1], single)
