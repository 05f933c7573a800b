"""One `basic.ack` covers several deliveries only when it covers nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from relay.kombu_broker.acknowledgement import AckPlan, OutstandingTags


def outstanding(*tags: int) -> OutstandingTags:
    tags_of_a_channel = OutstandingTags()
    for tag in tags:
        tags_of_a_channel.add(tag)
    return tags_of_a_channel


def test_the_head_of_the_line_goes_at_once() -> None:
    assert outstanding(1, 2, 3, 4).acknowledge([2, 1, 3]) == AckPlan(3, [])


def test_what_is_behind_a_gap_goes_one_by_one() -> None:
    assert outstanding(1, 2, 3, 4, 5).acknowledge([5, 1, 2, 4]) == AckPlan(2, [4, 5])


def test_one_alone_is_acknowledged_alone() -> None:
    assert outstanding(1, 2).acknowledge([1]) == AckPlan(None, [1])


def test_a_rejected_delivery_closes_its_gap() -> None:
    tags = outstanding(1, 2, 3)
    assert tags.take(2)
    assert not tags.take(2)
    assert tags.acknowledge([1, 3]) == AckPlan(3, [])


def test_unknown_and_repeated_tags_are_ignored() -> None:
    tags = outstanding(1)
    assert tags.acknowledge([1, 1, 9]) == AckPlan(None, [1])
    assert tags.acknowledge([1]) == AckPlan(None, [])


@given(st.lists(st.tuples(st.sampled_from(["ack", "take"]), st.integers(1, 30)), max_size=60), st.data())
def test_the_broker_is_told_exactly_what_was_asked(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    tags, at_the_broker, asked = outstanding(*range(1, 31)), set(range(1, 31)), set()
    while steps:
        size = data.draw(st.integers(1, len(steps)))
        now, steps = steps[:size], steps[size:]
        for kind, tag in now:
            if kind == "take" and tags.take(tag):
                at_the_broker.discard(tag)
                asked.add(tag)
        wanted = [tag for kind, tag in now if kind == "ack"]
        asked |= set(wanted)
        plan = tags.acknowledge(wanted)
        if plan.up_to is not None:
            at_the_broker = {tag for tag in at_the_broker if tag > plan.up_to}
        for tag in plan.single:
            assert tag in at_the_broker  # a tag acknowledged twice closes the channel
            at_the_broker.discard(tag)
        assert at_the_broker == set(range(1, 31)) - asked
