# SPDX-License-Identifier: Apache-2.0
"""Short stories with questions, after the first three tasks of bAbI.

People move between rooms, take things and drop them. One supporting fact: where is a person? Two:
where is a thing, which somebody holds? Three: where was it before? Written from the descriptions in
Weston et al., Towards AI-Complete Question Answering, 2015, §3.1; the sentences are ours: a person,
a verb, and a room or a thing. Simpler than there: things are asked for only while they are held.
"""

from typing import NamedTuple

import numpy as np

PEOPLE = ("mary", "john", "daniel", "sandra")
THINGS = ("football", "apple", "milk")
ROOMS = ("kitchen", "garden", "office", "bathroom", "hallway", "bedroom")
WORDS = ("", *ROOMS, *PEOPLE, *THINGS, "moved", "took", "dropped", "where", "before")
"""Word 0 is padding; rooms come next, so that an answer is a word."""
NUMBER = {word: number for number, word in enumerate(WORDS)}


class Stories(NamedTuple):
    """Stories as numbers of words.

    Attributes:
        sentences: (stories, places, 3), oldest first, padding behind.
        lengths: Sentences of each story.
        questions: (stories, 2).
        answers: Place of the answer in `ROOMS`.
        facts: Places of the sentences that are needed, in the order in which they are found,
            (stories, supporting facts).
    """

    sentences: np.ndarray
    lengths: np.ndarray
    questions: np.ndarray
    answers: np.ndarray
    facts: np.ndarray

    def rows(self, places: np.ndarray) -> "Stories":
        """Return some of the stories."""
        return Stories(*(part[places] for part in self))


def tell(count: int, num_facts: int, longest: int, seed: int) -> Stories:
    """Tell stories of at most `longest` sentences, each with a question on 1, 2 or 3 facts."""
    rng = np.random.default_rng([seed, num_facts])
    told = []
    while len(told) < count:
        story = _story(int(rng.integers(longest // 2, longest + 1)), num_facts > 1, rng)
        if asked := _question(story, num_facts, rng):
            told.append((story, *asked))
    sentences = np.zeros((count, longest, 3), np.int32)
    for row, (story, *_) in enumerate(told):
        sentences[row, : len(story)] = [[NUMBER[word] for word in sentence] for sentence in story]
    return Stories(
        sentences,
        np.array([len(story) for story, *_ in told], np.int32),
        np.array([[NUMBER[word] for word in question] for _, question, *_ in told], np.int32),
        np.array([ROOMS.index(answer) for *_, answer, _ in told], np.int32),
        np.array([facts for *_, facts in told], np.int32),
    )


def _story(length: int, with_things: bool, rng: np.random.Generator) -> list[tuple[str, str, str]]:
    """Return sentences: a person takes what nobody has, drops what they have, or moves."""
    story: list[tuple[str, str, str]] = []
    room: dict[str, str] = {}
    holder: dict[str, str] = {}
    for _ in range(length):
        person = PEOPLE[rng.integers(len(PEOPLE))]
        free = [thing for thing in THINGS if thing not in holder]
        held = [thing for thing, who in holder.items() if who == person]
        draw = rng.random() if with_things and person in room else 1.0
        if draw < 0.3 and free:
            thing = free[rng.integers(len(free))]
            holder[thing] = person
            story.append((person, "took", thing))
        elif draw < 0.4 and held:
            thing = held[rng.integers(len(held))]
            del holder[thing]
            story.append((person, "dropped", thing))
        else:
            others = [name for name in ROOMS if name != room.get(person)]
            room[person] = others[rng.integers(len(others))]
            story.append((person, "moved", room[person]))
    return story


def _question(
    story: list[tuple[str, str, str]], num_facts: int, rng: np.random.Generator
) -> tuple[tuple[str, str], str, list[int]] | None:
    """Return a question, its answer and the places of its facts; None if there is none."""
    moves: dict[str, list[int]] = {}
    taken: dict[str, int] = {}
    for place, (person, verb, what) in enumerate(story):
        if verb == "moved":
            moves.setdefault(person, []).append(place)
        elif verb == "took":
            taken[what] = place
        else:
            del taken[what]
    if num_facts == 1:
        choices = [(("where", person), [places[-1]]) for person, places in moves.items()]
    else:
        choices = [
            (("where" if num_facts == 2 else "before", thing), [take, *places[:-num_facts:-1]])
            for thing, take in taken.items()
            if len(places := moves.get(story[take][0], [])) >= num_facts - 1
        ]
    if not choices:
        return None
    question, facts = choices[rng.integers(len(choices))]
    return question, story[facts[-1]][2], facts
