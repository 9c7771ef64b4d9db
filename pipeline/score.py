# SPDX-License-Identifier: Apache-2.0
"""Score encoded rows with a model, batch by batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from features.schema import LABEL, WEIGHT, FeatureSchema
from models.ctr_model import CTRModel
from pipeline.batches import (
    Batch,
    batch_keys,
    compact,
    pad_batch,
    prefetch,
    read_batches,
)
from pipeline.config import RunConfig

_PLACES_PARTS = 4
"""Few shapes to compile: the last batch of a folder is mostly padding."""


class Scorer:
    """Turns batches into click probabilities; every batch is padded to one size.

    Args:
        model: The model.
        schema: Features that it reads.
        batch_size: Rows of a padded batch.
        xla: Whether the model is compiled.
    """

    def __init__(
        self, model: CTRModel, schema: FeatureSchema, batch_size: int, xla: bool = True
    ) -> None:
        self.model = model
        self.schema = schema
        self.batch_size = batch_size
        self._keys = batch_keys(schema)

        def logits(embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return tf.sigmoid(model.logits(embedded, batch, training=False))

        compiled = tf.function(logits, jit_compile=xla, autograph=False)

        @tf.function(autograph=False)
        def probabilities(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
            batch = model.narrowed(batch)
            return compiled(model.embeddings(batch), batch)

        self._probabilities = probabilities

    def __call__(self, batch: Batch) -> np.ndarray:
        """Return the probability of a click for each row, float32 (rows,)."""
        rows = len(next(iter(batch.values())))
        padded = pad_batch({key: batch[key] for key in self._keys}, self.batch_size)
        compacted = compact(padded, self.model, _PLACES_PARTS)
        tensors = {key: tf.convert_to_tensor(array) for key, array in compacted.items()}
        return self._probabilities(tensors).numpy()[:rows]


@dataclass(frozen=True)
class Scored:
    """Scores and what metrics need beside them; one entry per row."""

    labels: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None


def carried(config: RunConfig) -> list[str]:
    """Return the columns beside the features that scoring reads."""
    return [LABEL, WEIGHT, *(["group"] if config.group_column else [])]


def score_batches(
    scorer: Scorer, folder: Path, carry: list[str]
) -> Iterator[tuple[Batch, np.ndarray]]:
    """Yield each batch of a folder, in the files' order, with its scores."""
    batches = read_batches(folder, scorer.schema, scorer.batch_size, carry)
    for batch in prefetch(batches):
        yield batch, scorer(batch)


def score_folder(scorer: Scorer, folder: Path, config: RunConfig) -> Scored:
    """Score all rows of a folder."""
    labels, scores, weights, groups = [], [], [], []
    for batch, probabilities in score_batches(scorer, folder, carried(config)):
        labels.append(batch[LABEL])
        scores.append(probabilities)
        weights.append(batch[WEIGHT])
        if config.group_column:
            groups.append(batch["group"])
    return Scored(
        np.concatenate(labels),
        np.concatenate(scores),
        np.concatenate(weights),
        np.concatenate(groups) if groups else None,
    )
