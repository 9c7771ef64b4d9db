# SPDX-License-Identifier: Apache-2.0
"""Histories whose events are facts, which a model must look up."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from pydantic import Field

from pipeline.planted_histories import (
    ANSWER,
    ITEM,
    Column,
    Drawn,
    HistoriesTask,
    distinct,
    half,
    shuffled,
)


class KeyValue(HistoriesTask):
    """For: the past event of the candidate's item has the answer 1.

    A past holds 10 items, half of them with answer 1, half with answer 0; candidates have none.
    """

    name: ClassVar[str] = "key_value"
    summary: ClassVar[str] = (
        "Match by item_id, answer in another column: kvmemnn and din learn it, base cannot."
    )
    # attention over vectors of 0.01 has no slope to start from in so few steps
    learner: ClassVar[str] = "{kind: kvmemnn, initial_stddev: 0.1}"
    foil: ClassVar[str] = "{kind: base}"
    columns: ClassVar[Mapping[str, Column]] = {"item_id": ITEM, "answer": ANSWER}
    events: ClassVar[int] = 10

    items: int = Field(100, ge=10, description="Items.")

    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws pasts and candidates."""
        item = distinct(users, self.events, self.items, rng)
        answer = half(users, self.events, rng)
        pick = rng.integers(self.events, size=(users, self.candidates))
        asked = np.take_along_axis(item, pick, axis=1)
        return Drawn(
            {"item_id": item, "answer": answer.astype(np.int64)},
            {"item_id": asked, "answer": np.full_like(asked, -1)},
            np.take_along_axis(answer, pick, axis=1),
        )


class TwoHop(HistoriesTask):
    """For: the candidate's item links to an item whose answer is 1.

    A past holds, in random order, 4 events that link an item to another, and an answer of each of
    the others, half of them 1. Any item may be linked from or to.
    """

    name: ClassVar[str] = "two_hop"
    summary: ClassVar[str] = (
        "The candidate leads to a link, the link to the answer: two hops learn it, one cannot."
    )
    learner: ClassVar[str] = (
        "{kind: memn2n, initial_stddev: 0.5, position_encoding: false, temporal_encoding: false, "
        "activation: prelu}"
    )
    foil: ClassVar[str] = "{kind: din}"
    columns: ClassVar[Mapping[str, Column]] = {
        "item_id": ITEM,
        "link": Column("i", "kind: categorical, table: item_id, past_only: true"),
        "answer": ANSWER,
    }
    events: ClassVar[int] = 8

    items: int = Field(30, ge=8, description="Items.")

    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws pasts and candidates."""
        chains = self.events // 2
        item = distinct(users, self.events, self.items, rng)
        answer = half(users, chains, rng)
        nothing = np.full((users, chains), -1)
        order = shuffled(users, self.events, rng)
        past = {
            "item_id": item,
            "link": np.concatenate([item[:, chains:], nothing], axis=1),
            "answer": np.concatenate([nothing, answer], axis=1),
        }
        pick = rng.integers(chains, size=(users, self.candidates))
        absent = np.full_like(pick, -1)
        asked = {"item_id": np.take_along_axis(item, pick, axis=1), "link": absent}
        return Drawn(
            {name: np.take_along_axis(codes, order, axis=1) for name, codes in past.items()},
            asked | {"answer": absent},
            np.take_along_axis(answer, pick, axis=1),
        )
