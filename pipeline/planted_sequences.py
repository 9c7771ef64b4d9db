# SPDX-License-Identifier: Apache-2.0
"""Histories whose events matter by their order or their age."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from pipeline.planted_histories import PAST, Drawn, distinct, shuffled
from pipeline.planted_interests import InterestsTask


class Order(InterestsTask):
    """For: the event of the candidate's category is in the newer half of the past.

    Every past holds each category once, so that without order all pasts are alike.
    """

    name: ClassVar[str] = "order"
    summary: ClassVar[str] = (
        "It matters when a past event happened, not whether: transformer learns it, din cannot."
    )
    learner: ClassVar[str] = (
        "{kind: transformer, encoder_layers: 1, decoder_layers: 1, num_heads: 2}"
    )
    foil: ClassVar[str] = "{kind: din}"
    events: ClassVar[int] = 12
    training: ClassVar[str] = (
        "{batch_size: 256, learning_rate: 0.003, epochs: 6, patience: 6, evaluations_per_epoch: 1}"
    )

    categories: int = Field(12, ge=12, le=12, description="Categories of items; one event each.")

    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws pasts and candidates."""
        past = shuffled(users, self.events, rng)
        relevant = rng.random((users, self.candidates)) < 0.5
        middle = self.events // 2
        place = rng.integers(middle, size=relevant.shape) + middle * relevant
        chosen = np.take_along_axis(past, place, axis=1)
        return Drawn(self.both(past, rng), self.both(chosen, rng), relevant)


class Drift(InterestsTask):
    """For: the newest past event of the candidate's category is of its good half of items.

    A past is about 4 categories. Each has one event with an item of the first half of the
    category's items, which are good, and one of the second half, in random order: what a user
    liked of a category, and what is liked now, are two things.
    """

    name: ClassVar[str] = "drift"
    summary: ClassVar[str] = (
        "The newest event like the candidate overrides older ones: dien learns it, din cannot."
    )
    learner: ClassVar[str] = "{kind: dien}"
    foil: ClassVar[str] = "{kind: din}"
    events: ClassVar[int] = 8
    training: ClassVar[str] = (
        "{batch_size: 256, learning_rate: 0.01, epochs: 4, patience: 4, evaluations_per_epoch: 1}"
    )

    categories: int = Field(8, ge=4, description="Categories of items.")

    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws pasts and candidates."""
        count = self.events // 2
        liked = distinct(users, count, self.categories, rng)
        places = shuffled(users, self.events, rng) % count  # each place twice, in any order
        past = np.take_along_axis(liked, places, axis=1)
        same = places[:, :, None] == places[:, None, :]
        second = np.tril(same, -1).any(axis=2)  # whether the category's newest event
        now_good = rng.random((users, count)) < 0.5
        good = np.take_along_axis(now_good, places, axis=1) == second
        middle = self.items // 2
        item = np.where(
            good,
            rng.integers(middle, size=past.shape),
            rng.integers(middle, self.items, size=past.shape),
        )
        pick = rng.integers(count, size=(users, self.candidates))
        relevant = np.take_along_axis(now_good, pick, axis=1)
        return Drawn(
            {"item_id": past * self.items + item, "category": past},
            self.both(np.take_along_axis(liked, pick, axis=1), rng),
            relevant,
        )


class Long(InterestsTask):
    """For: the candidate's category is among the 50 oldest of 550 past events.

    It is never among the newest 500, whether for or against.
    """

    name: ClassVar[str] = "long"
    summary: ClassVar[str] = (
        "What matters lies 500 events back: a history of 550 has it, one of 50 cannot."
    )
    learner: ClassVar[str] = (
        "{kind: kvmemnn, key_columns: [category], key_hashing: same_key, "
        "features: [item_id, category, past]}"
    )
    foil: ClassVar[str] = (
        "{kind: din, attention_activation: prelu, features: [item_id, category, recent]}"
    )
    events: ClassVar[int] = 550
    training: ClassVar[str] = (
        "{batch_size: 128, learning_rate: 0.003, epochs: 4, patience: 4, evaluations_per_epoch: 1}"
    )
    old: ClassVar[int] = 50

    impressions: int = Field(20_000, ge=1, description="Rows with a click to predict.")
    candidates: int = Field(20, ge=1, description="Impressions of a user, after the same past.")
    categories: int = Field(100, ge=30, description="Categories of items.")

    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws pasts and candidates."""
        third = self.categories // 3
        known = distinct(users, 3 * third, self.categories, rng)
        relevant = rng.random((users, self.candidates)) < 0.5
        liked, others, filler = (known[:, i * third : (i + 1) * third] for i in range(3))

        def some(of: np.ndarray, count: int) -> np.ndarray:
            return np.take_along_axis(of, rng.integers(third, size=(users, count)), axis=1)

        old = some(liked, self.old)
        past = np.concatenate([old, some(filler, self.events - self.old)], axis=1)
        shown = np.take_along_axis(old, rng.integers(self.old, size=relevant.shape), axis=1)
        chosen = np.where(relevant, shown, some(others, self.candidates))
        return Drawn(self.both(past, rng), self.both(chosen, rng), relevant)

    def histories(self, of: str) -> str:
        """Returns the lines of both histories, all of the past and the newest 50 events."""
        rest = f"kind: history, of: [{of}], events: {{part: [{PAST}]}}"
        return (
            f"  past: {{{rest}, max_items: {self.events}}}\n  recent: {{{rest}, max_items: 50}}\n"
        )
