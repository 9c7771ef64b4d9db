# SPDX-License-Identifier: Apache-2.0
"""Histories whose events matter by how they fit the candidate."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from pydantic import Field

from pipeline.planted_histories import (
    CATEGORY,
    ITEM,
    Column,
    Drawn,
    HistoriesTask,
    distinct,
    item_in,
    shuffled,
)


class InterestsTask(HistoriesTask):
    """Items of categories: both are columns of past events and of candidates."""

    categories: int = Field(100, ge=2, description="Categories of items.")
    items: int = Field(4, ge=2, description="Items of each category.")

    columns: ClassVar[Mapping[str, Column]] = {"item_id": ITEM, "category": CATEGORY}

    def both(self, category: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Returns the columns of events of some categories, with items drawn."""
        return {"item_id": item_in(category, self.items, rng), "category": category}


class Interest(InterestsTask):
    """For: the candidate's category is one of those that the past is about.

    A past is about 8 categories, with at least one event each. Half of the candidates are of these.
    """

    name: ClassVar[str] = "interest"
    summary: ClassVar[str] = (
        "Only past events like the candidate matter: din learns it, base sees a blur."
    )
    learner: ClassVar[str] = "{kind: din, attention_activation: prelu, normalisation: none}"
    foil: ClassVar[str] = "{kind: base}"
    events: ClassVar[int] = 20
    interests: ClassVar[int] = 8

    categories: int = Field(100, ge=16, description="Categories of items.")

    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws pasts and candidates."""
        known = distinct(users, 2 * self.interests, self.categories, rng)
        liked, others = known[:, : self.interests], known[:, self.interests :]
        more = rng.integers(self.interests, size=(users, self.events - self.interests))
        places = np.concatenate([np.tile(np.arange(self.interests), (users, 1)), more], axis=1)
        places = np.take_along_axis(places, shuffled(users, self.events, rng), axis=1)
        past = np.take_along_axis(liked, places, axis=1)
        relevant = rng.random((users, self.candidates)) < 0.5
        pick = rng.integers(self.interests, size=relevant.shape)
        chosen = np.where(
            relevant,
            np.take_along_axis(liked, pick, axis=1),
            np.take_along_axis(others, pick, axis=1),
        )
        return Drawn(self.both(past, rng), self.both(chosen, rng), relevant)
