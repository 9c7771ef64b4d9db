# SPDX-License-Identifier: Apache-2.0
"""Planted tasks over categorical fields: all of the signal is in pairs of values."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from pipeline.planted_task import PlantedTask, clicks_of
from pipeline.synth_files import BLOCK_ROWS, TRUTH, Block

Factors = Mapping[tuple[int, int], tuple[np.ndarray, np.ndarray]]
"""Of each pair of fields i < j that matters: what j meets of i and i of j, (values, factors)."""


class FieldsTask(PlantedTask):
    """Fields 1 … F of independent, uniform values; the logit is a sum over pairs of fields.

        logit = strength · Σ_{i<j} <a_ij[x_i], a_ji[x_j]> / (its standard deviation)

    Every a has mean 0 over its field's values, so that a value tells nothing by itself: its mean
    logit over the other fields' values is exactly 0. A subclass says what the a are.
    """

    fields: int = Field(4, ge=2, description="Fields of the log.")
    values: int = Field(40, ge=2, description="Values of each field.")
    factors: int = Field(3, ge=1, description="Length of each planted vector.")
    strength: float = Field(2.0, gt=0, description="Standard deviation of the logit.")

    @abstractmethod
    def draw_factors(self, rng: np.random.Generator) -> Factors:
        """Returns the a of each pair that matters."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(f"field_{number}" for number in range(1, self.fields + 1))

    @property
    def schema(self) -> pa.Schema:
        """Columns of the events."""
        fields = [(name, pa.string()) for name in self.field_names]
        return pa.schema([("impression_id", pa.int64()), *fields, ("click", pa.int64())])

    def factors_of_pairs(self) -> Factors:
        """Returns the a of each pair, scaled to the strength; the log's length does not matter."""
        pairs = self.draw_factors(np.random.default_rng([self.seed, 0]))
        # fields are independent and means 0, so pairs are uncorrelated: Var <a, b> = tr(AᵀA BᵀB)/n²
        variance = sum(np.sum((a.T @ a) * (b.T @ b)) for a, b in pairs.values()) / self.values**2
        scale = np.sqrt(self.strength / np.sqrt(variance))
        return {pair: (scale * a, scale * b) for pair, (a, b) in pairs.items()}

    def blocks(self) -> Iterator[Block]:
        """Yields events and their truth, `BLOCK_ROWS` rows at a time."""
        pairs = self.factors_of_pairs()
        rng = np.random.default_rng([self.seed, 1])
        names = [
            pa.array([f"{chr(ord('a') + field % 26)}{value:03d}" for value in range(self.values)])
            for field in range(self.fields)
        ]
        for first in range(0, self.impressions, BLOCK_ROWS):
            rows = min(BLOCK_ROWS, self.impressions - first)
            value = rng.integers(self.values, size=(self.fields, rows))
            logits = np.sum(
                [np.sum(a[value[i]] * b[value[j]], axis=1) for (i, j), (a, b) in pairs.items()],
                axis=0,
            )
            probability, click = clicks_of(logits, rng)
            ids = np.arange(first, first + rows)
            columns = [name.take(pa.array(drawn)) for name, drawn in zip(names, value, strict=True)]
            yield (
                pa.table([pa.array(ids), *columns, pa.array(click)], schema=self.schema),
                pa.table([pa.array(ids), pa.array(probability)], schema=TRUTH),
            )

    def body(self) -> str:
        """Returns the YAML of a run's config after `data`, but for `model`."""
        features = "".join(f"  {name}: {{kind: categorical}}\n" for name in self.field_names)
        return (
            "label: {column: click}\n"
            "keys: [impression_id]\n"
            "split: {kind: hash, valid: 0.1, test: 0.2}\n"
            f"features:\n{features}"
            "train: {batch_size: 512, learning_rate: 0.01, epochs: 6, patience: 6}\n"
        )

    def _centred(self, rng: np.random.Generator) -> np.ndarray:
        """Draws vectors with mean 0 over the field's values, (values, factors)."""
        vectors = rng.standard_normal((self.values, self.factors))
        return vectors - vectors.mean(axis=0)


class Pairs(FieldsTask):
    """A value has one vector, whichever field it meets: a_ij = a_i, a factorisation machine."""

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = (
        "Products of values' vectors, no main effects: fm learns it, lr cannot."
    )
    learner: ClassVar[str] = "{kind: fm, embedding_dim: 8}"
    foil: ClassVar[str] = "{kind: lr}"

    def draw_factors(self, rng: np.random.Generator) -> Factors:
        """Returns the a of all pairs."""
        vectors = [self._centred(rng) for _ in range(self.fields)]
        return {(i, j): (vectors[i], vectors[j]) for i, j in combinations(range(self.fields), 2)}


class FieldAware(FieldsTask):
    """A value has a vector of its own for each field that it meets: all a are independent."""

    name: ClassVar[str] = "field_aware"
    summary: ClassVar[str] = (
        "A value's vector depends on the field it meets: ffm learns it, fm of the same size cannot."
    )
    learner: ClassVar[str] = "{kind: ffm, embedding_dim: 2, initial_stddev: 0.1}"
    foil: ClassVar[str] = "{kind: fm, embedding_dim: 12, initial_stddev: 0.1}"

    fields: int = Field(6, ge=2, description="Fields of the log.")
    values: int = Field(20, ge=2, description="Values of each field.")
    factors: int = Field(2, ge=1, description="Length of each planted vector.")

    def draw_factors(self, rng: np.random.Generator) -> Factors:
        """Returns the a of all pairs."""
        return {
            pair: (self._centred(rng), self._centred(rng))
            for pair in combinations(range(self.fields), 2)
        }


class FewPairs(FieldsTask):
    """A few pairs of fields matter alike, and share no field; all other pairs tell nothing."""

    name: ClassVar[str] = "few_pairs"
    summary: ClassVar[str] = (
        "Few of many pairs of fields matter; the largest attention weights of afm name them."
    )
    learner: ClassVar[str] = "{kind: afm, embedding_dim: 8, initial_stddev: 0.1}"
    foil: ClassVar[str] = "{kind: lr}"

    impressions: int = Field(40_000, ge=1, description="Rows of the log.")
    fields: int = Field(8, ge=2, description="Fields of the log.")
    values: int = Field(20, ge=2, description="Values of each field.")
    factors: int = Field(2, ge=1, description="Length of each planted vector.")
    strength: float = Field(2.5, gt=0, description="Standard deviation of the logit.")
    pairs: int = Field(3, ge=1, description="Pairs that matter.")

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if 2 * self.pairs > self.fields:
            raise ValueError(
                f"{self.pairs} pairs that share no field need {2 * self.pairs} fields; "
                f"there are {self.fields}"
            )
        return self

    def draw_factors(self, rng: np.random.Generator) -> Factors:
        """Returns the a of the pairs that matter, each pair of variance 1."""
        chosen = np.sort(rng.permutation(self.fields)[: 2 * self.pairs].reshape(-1, 2), axis=1)
        factors = {}
        for i, j in sorted(chosen.tolist()):
            a, b = self._centred(rng), self._centred(rng)
            factors[i, j] = a, b * self.values / np.sqrt(np.sum((a.T @ a) * (b.T @ b)))
        return factors

    def planted(self) -> dict[str, Any]:
        """Returns the names of the pairs that matter."""
        names = self.field_names
        return {"pairs": [[names[i], names[j]] for i, j in self.factors_of_pairs()]}
