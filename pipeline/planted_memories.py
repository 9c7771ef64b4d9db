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
)


class KeyValue(HistoriesTask):
    """For: the past event of the candidate's item has the answer 1.

    A past holds 10 items, half of them with answer 1, half with answer 0; candidates have none.
    """

    name: ClassVar[str] = "key_value"
    summary: ClassVar[str] = (
        "Match by item_id, answer in another column: kvmemnn and din learn it, base cannot."
    )
    learner: ClassVar[str] = "{kind: din, attention_activation: prelu}"
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
