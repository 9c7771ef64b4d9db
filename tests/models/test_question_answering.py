# SPDX-License-Identifier: Apache-2.0
"""Stories have the answers that they tell, and memory layers learn to find them."""

import numpy as np
import pytest

from benchmarks.question_answering import Options, train
from benchmarks.stories import ROOMS, WORDS, tell


def whereabouts(sentences, thing):
    """The rooms that a thing has been in, by following who has it."""
    room, holder, been = {}, None, []
    for person, verb, what in sentences:
        if verb == "moved":
            room[person] = what
        elif what == thing:
            holder = person if verb == "took" else None
        if holder in room and been[-1:] != [room[holder]]:
            been.append(room[holder])
    return been


@pytest.mark.parametrize("num_facts", [1, 2, 3])
def test_answers_follow_from_the_story_and_from_its_facts(num_facts):
    stories = tell(200, num_facts, 14, seed=3)
    for row in range(200):
        length = stories.lengths[row]
        told = [tuple(WORDS[word] for word in s) for s in stories.sentences[row, :length]]
        (question, who), answer = (WORDS[w] for w in stories.questions[row]), stories.answers[row]
        facts = [told[place] for place in stories.facts[row]]
        assert not stories.sentences[row, length:].any()
        assert len(facts) == num_facts
        assert facts[-1][1:] == ("moved", ROOMS[answer])
        if num_facts == 1:
            assert question == "where"
            assert [s for s in told if s[:2] == (who, "moved")][-1] == facts[0]
            continue
        assert facts[0][1:] == ("took", who)
        been = whereabouts(told, who)
        if num_facts == 2:
            assert been[-1] == ROOMS[answer]
        else:  # where its holder was before; the thing itself may have been taken later
            moves = [s for s in told if s[:2] == (facts[0][0], "moved")]
            assert (question, facts[1:]) == ("before", [moves[-1], moves[-2]])
    assert len(set(stories.answers)) == len(ROOMS)
    np.testing.assert_array_equal(tell(200, num_facts, 14, seed=3).answers, stories.answers)


ONE_FACT = {
    "memn2n": {"steps": 1_500},
    "kvmemnn": {"hops": 1, "steps": 800},
    "dmn": {"hops": 1, "steps": 1_200, "rate": 0.005, "supervised": True},
    "memnn": {"steps": 500},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_FACT)
def test_one_supporting_fact_is_found(kind):
    assert train(Options(kind, **ONE_FACT[kind])) >= 0.99


@pytest.mark.slow
def test_two_supporting_facts_take_hops():
    assert train(Options("memn2n", facts=2, hops=3, steps=2_500)) >= 0.9
    assert train(Options("memn2n", facts=2, hops=1, steps=2_500)) < 0.7
    assert train(Options("kvmemnn", facts=2, hops=2, steps=1_000)) >= 0.9
    assert train(Options("kvmemnn", facts=2, hops=1, steps=1_000)) < 0.7
