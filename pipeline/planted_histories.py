# SPDX-License-Identifier: Apache-2.0
"""Planted tasks over behaviour histories: a candidate's click depends on the user's past events."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline.planted_task import PlantedTask, clicks_of
from pipeline.synth_files import BLOCK_ROWS, TRUTH, Block

PARTS = ("train", "valid", "test")
PART_SHARES = (0.7, 0.1, 0.2)
PAST = "past"
FIRST_SECOND = int(np.datetime64("2026-01-05", "s").astype(np.int64))
SECONDS_APART = 60


class Column(NamedTuple):
    """What a past event and a candidate consist of."""

    letter: str  # before the number of each value
    feature: str  # options of the feature, as YAML


ITEM = Column("i", "kind: categorical")
CATEGORY = Column("c", "kind: categorical")
ANSWER = Column("a", "kind: categorical, past_only: true")


class Drawn(NamedTuple):
    """Pasts and candidates of some users U, as codes from 0; -1 is missing."""

    past: Mapping[str, np.ndarray]  # by column, oldest first, (U, events)
    candidates: Mapping[str, np.ndarray]  # by column, (U, candidates)
    relevant: np.ndarray  # whether the past speaks for the candidate, bool (U, candidates)


class HistoriesTask(PlantedTask):
    """Each user has a past, and then candidates, whose logit is ±strength by what is in it.

    Past events are rows of the log whose `part` is "past": they enter histories, are never
    impressions, and have no true probability. A user's candidates are all in one part, and none
    is in the past of another. For and against are equally likely whatever the candidate, so that
    it tells nothing by itself.
    """

    impressions: int = Field(40_000, ge=1, description="Rows with a click to predict.")
    candidates: int = Field(4, ge=1, description="Impressions of a user, after the same past.")
    strength: float = Field(2.5, gt=0, description="Logit for, and minus the logit against.")

    columns: ClassVar[Mapping[str, Column]]
    events: ClassVar[int]
    """Length of a user's past."""
    training: ClassVar[str] = "{batch_size: 512, learning_rate: 0.003, epochs: 6, patience: 6}"
    """Train section of the config, as flow YAML."""

    @abstractmethod
    def draw(self, users: int, rng: np.random.Generator) -> Drawn:
        """Draws the pasts and candidates of some users."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the log."""
        values = [(name, pa.string()) for name in self.columns]
        head = [("impression_id", pa.int64()), ("part", pa.string()), ("time", pa.int64())]
        return pa.schema([*head, ("user_id", pa.string()), *values, ("click", pa.int64())])

    def blocks(self) -> Iterator[Block]:
        """Yields the log by user, and its truth, about `BLOCK_ROWS` rows at a time."""
        rng = np.random.default_rng([self.seed, 1])
        users = -(-self.impressions // self.candidates)
        at_once = max(BLOCK_ROWS // (self.events + self.candidates), 1)
        left, row = self.impressions, 0
        for first in range(0, users, at_once):
            block = self._block(first, min(at_once, users - first), row, left, rng)
            yield block
            row += len(block[0])
            left -= at_once * self.candidates

    def _block(
        self, first: int, users: int, row: int, left: int, rng: np.random.Generator
    ) -> Block:
        """Draws the log of users `first` …, of which at most `left` impressions are kept."""
        drawn = self.draw(users, rng)
        probability, click = clicks_of(
            np.where(drawn.relevant, self.strength, -self.strength).ravel(), rng
        )
        shape = (users, self.candidates)
        unknown, none = np.full((users, self.events), np.nan), np.zeros((users, self.events), int)
        part = rng.choice(len(PARTS), (users, 1), p=PART_SHARES)
        is_past = np.full((users, self.events), len(PARTS))
        keep = np.ones((users, self.events + self.candidates), bool)
        keep[:, self.events :] = np.arange(users * self.candidates).reshape(shape) < left

        def joined(past: np.ndarray, candidates: np.ndarray) -> np.ndarray:
            return np.concatenate([past, candidates], axis=1)[keep]

        rows = int(keep.sum())
        ids = pa.array(np.arange(row, row + rows))
        steps = np.minimum(np.arange(self.events + self.candidates), self.events)
        time = np.broadcast_to(FIRST_SECOND + SECONDS_APART * steps, keep.shape)[keep]
        user = np.broadcast_to(first + np.arange(users)[:, None], keep.shape)[keep]
        names = pa.array([*PARTS, PAST])
        values = [
            _texts(column.letter, joined(drawn.past[name], drawn.candidates[name]))
            for name, column in self.columns.items()
        ]
        parts = names.take(pa.array(joined(is_past, np.broadcast_to(part, shape))))
        clicks = pa.array(joined(none, click.reshape(shape)))
        truth = pa.array(joined(unknown, probability.reshape(shape)), from_pandas=True)
        events = [ids, parts, pa.array(time), _texts("u", user), *values, clicks]
        return pa.table(events, schema=self.schema), pa.table([ids, truth], schema=TRUTH)

    def body(self) -> str:
        """Returns the YAML of a run's config after `data`, but for `model`."""
        features = "".join(
            f"  {name}: {{{column.feature}}}\n" for name, column in self.columns.items()
        )
        of = ", ".join(self.columns)
        return (
            "label: {column: click}\n"
            "time: {column: time, unit: s}\n"
            "entity: user_id\n"
            "keys: [impression_id]\n"
            "split: {kind: column, column: part}  # rows of part past only enter histories\n"
            f"features:\n{features}{self.histories(of)}"
            f"train: {self.training}\n"
        )

    def histories(self, of: str) -> str:
        """Returns the lines of the history features; `of` is the list of their columns."""
        return (
            f"  past: {{kind: history, of: [{of}], events: {{part: [{PAST}]}}, "
            f"max_items: {self.events}}}\n"
        )


def _texts(letter: str, codes: np.ndarray) -> pa.Array:
    """Returns codes as texts such as i00042, null for -1."""
    names = pa.array([f"{letter}{code:05d}" for code in range(int(codes.max(initial=0)) + 1)])
    return names.take(pa.array(codes, mask=codes < 0))


def distinct(users: int, count: int, of: int, rng: np.random.Generator) -> np.ndarray:
    """Draws `count` distinct numbers below `of` for each user, in random order, (users, count)."""
    return rng.random((users, of)).argsort(axis=1)[:, :count]


def half(users: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws bool (users, count), True in exactly half of each row's places; `count` is even."""
    return rng.random((users, count)).argsort(axis=1) < count // 2


def shuffled(users: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws an order of `count` places for each user, (users, count)."""
    return distinct(users, count, count, rng)


def item_in(category: np.ndarray, items: int, rng: np.random.Generator) -> np.ndarray:
    """Draws one of the `items` items of each category; item v is of category v // items."""
    return category * items + rng.integers(items, size=category.shape)
