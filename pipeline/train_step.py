# SPDX-License-Identifier: Apache-2.0
"""One optimiser step whose cost does not depend on the size of the embedding tables."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from features.schema import LABEL, WEIGHT
from models.ctr_model import CTRModel
from models.optimizers import RowOptimizer
from pipeline.allocation import keep_large_blocks

Tensors = Mapping[str, tf.Tensor]


def weighted_log_loss(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return Σ w·ℓ(y, σ(z)) / Σ w in nats; 0 when all weights are 0."""
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.math.divide_no_nan(tf.reduce_sum(weights * losses), tf.reduce_sum(weights))


class TrainStep:
    """Looks each distinct id up once, differentiates, and writes the changed rows back.

    unique ids → gather their packed rows → what the model computes of each → local gather → dense
    part (under XLA) → gradient of each looked-up row → sum per distinct id → optimiser → scatter.

    Args:
        model: Built on a batch, its embeddings with the row optimiser's slots.
        rows: Optimiser of the embedding rows.
        dense: Keras optimiser of everything else.
        table_l2: λ of the penalty λ/2·|w|² on every distinct row of the batch, by table: one
            number, or one for each row of the table; tables that are left out have none.
        clip_norm: Largest global norm over dense gradients and summed row gradients, or None.
        xla: Whether the dense part is compiled.
    """

    def __init__(
        self,
        model: CTRModel,
        rows: RowOptimizer,
        dense: keras.optimizers.Optimizer,
        table_l2: Mapping[str, float | np.ndarray] | None = None,
        clip_norm: float | None = None,
        xla: bool = True,
    ) -> None:
        keep_large_blocks()
        self.model = model
        self.rows = rows
        self.dense = dense
        self.penalties = self._penalties(table_l2 or {})
        self.clip_norm = clip_norm
        self.dense.build(model.trainable_variables)
        self._dense_rate = float(dense.learning_rate)
        # most models prepare nothing: compiled, that would be a copy
        prepares = type(model).prepare is not CTRModel.prepare
        self._prepare = tf.function(self._prepared, jit_compile=xla and prepares, autograph=False)
        self._gradients = tf.function(self._dense_gradients, jit_compile=xla, autograph=False)
        self._update = tf.function(self._updated_rows, jit_compile=xla, autograph=False)
        self._step = tf.function(self._train_step, autograph=False)

    def __call__(
        self, batch: Mapping[str, np.ndarray], step: int, rate_factor: float = 1.0
    ) -> tf.Tensor:
        """Take one step on a batch and return its loss before the step.

        Args:
            batch: Arrays by batch key, with `label` and `weight`.
            step: Number of this step, from 1.
            rate_factor: What a schedule makes of both learning rates; 1 is all.
        """
        self.dense.learning_rate.assign(self._dense_rate * rate_factor)
        return self._step(
            stacked(batch), tf.constant(step, tf.float32), tf.constant(rate_factor, tf.float32)
        )

    def _train_step(
        self,
        stacks: Mapping[tuple[str, ...], tf.Tensor],
        step: tf.Tensor,
        rate_factor: tf.Tensor,
    ) -> tf.Tensor:
        batch: Tensors = {
            name: array
            for names, stack in stacks.items()
            for name, array in zip(names, tf.unstack(stack), strict=True)
        }
        embeddings, batch = self.model.embeddings, self.model.narrowed(batch)
        ids, places = tf.unique(embeddings.row_ids(batch))
        ids = _pad_ids(ids, places.shape[0])
        packed = embeddings.gather(ids)
        prepared = self._prepare(packed, ids)
        places = embeddings.by_column(places, batch)
        with tf.GradientTape() as tape:
            tape.watch(prepared)
            embedded = self.model.take(prepared, places)
        loss, upstream, dense_gradients = self._gradients(embedded, batch)
        upstream = tape.gradient(embedded, prepared, upstream)
        updated, dense_gradients = self._update(
            packed, ids, upstream, dense_gradients, step, rate_factor
        )
        embeddings.packed.value.scatter_update(tf.IndexedSlices(updated, ids))
        self.dense.apply(dense_gradients, self.model.trainable_variables)
        return loss

    def _prepared(self, packed: tf.Tensor, ids: tf.Tensor) -> Any:
        return self.model.prepare(packed[:, : self.model.embeddings.width], ids)

    def _updated_rows(
        self,
        packed: tf.Tensor,
        ids: tf.Tensor,
        upstream: Any,
        dense_gradients: list[tf.Tensor],
        step: tf.Tensor,
        rate_factor: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the packed rows after the step, and the gradients of the dense weights.

        Args:
            packed: Rows before it.
            ids: Theirs.
            upstream: Gradients of what `_prepared` returned; None of what the loss does not need.
            dense_gradients: Those that do not come by way of what was prepared.
            step: Number of the step.
            rate_factor: Of its learning rates.
        """
        weights = packed[:, : self.model.embeddings.width]
        variables = [variable.value for variable in self.model.trainable_variables]
        # prepared again, so that the way back and the optimiser are one compiled function, which
        # writes no gradient of whole rows in between
        with tf.GradientTape() as tape:
            tape.watch(weights)
            prepared = tf.nest.flatten(self.model.prepare(weights, ids))
        pairs = zip(prepared, tf.nest.flatten(upstream), strict=True)
        needed = [(part, gradient) for part, gradient in pairs if gradient is not None]
        row_gradients, more = tape.gradient(
            [part for part, _ in needed],
            (weights, variables),
            [gradient for _, gradient in needed],
            unconnected_gradients="zero",
        )
        dense_gradients = [a + b for a, b in zip(dense_gradients, more, strict=True)]
        row_gradients = self._whole_gradients(packed, row_gradients, ids)
        if self.clip_norm is not None:
            (row_gradients, *dense_gradients), _ = tf.clip_by_global_norm(
                [row_gradients, *dense_gradients], self.clip_norm
            )
        return self.rows.update(packed, row_gradients, step, rate_factor), dense_gradients

    def _whole_gradients(
        self, packed: tf.Tensor, gradients: tf.Tensor, ids: tf.Tensor
    ) -> tf.Tensor:
        """Add the penalty's gradient; padding has none at all."""
        embeddings = self.model.embeddings
        if self.penalties is not None:
            # a table has 2 rows or more, so that rows outnumber tables
            by_table = self.penalties.shape[0] == len(embeddings.tables)
            penalties = tf.gather(self.penalties, embeddings.table_of(ids) if by_table else ids)
            gradients += penalties[:, None] * packed[:, : embeddings.width]
        return tf.where(embeddings.is_padding(ids)[:, None], 0.0, gradients)

    def _penalties(self, table_l2: Mapping[str, float | np.ndarray]) -> tf.Tensor | None:
        """Return λ of every table, or of every row if any table's λ differ by row."""
        tables = self.model.embeddings.tables
        given = [table_l2.get(table.name, 0.0) for table in tables]
        if not any(np.any(penalty) for penalty in given):
            return None
        if any(np.ndim(penalty) for penalty in given):
            given = [np.broadcast_to(p, t.rows) for p, t in zip(given, tables, strict=True)]
            return tf.constant(np.concatenate(given), tf.float32)
        return tf.constant(given, tf.float32)

    def _dense_gradients(
        self, embedded: Any, batch: Tensors
    ) -> tuple[tf.Tensor, Any, list[tf.Tensor]]:
        variables = [variable.value for variable in self.model.trainable_variables]
        labels, weights = tf.cast(batch[LABEL], tf.float32), batch[WEIGHT]
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            logits = self.model.logits(embedded, batch, training=True)
            loss = weighted_log_loss(labels, logits, weights)
            if self.model.losses:
                loss += tf.add_n(self.model.losses)
        gradients, dense_gradients = tape.gradient(
            loss, (embedded, variables), unconnected_gradients="zero"
        )
        return loss, gradients, dense_gradients


def stacked(batch: Mapping[str, np.ndarray]) -> dict[tuple[str, ...], tf.Tensor]:
    """Return the batch as few tensors: columns of numbers of one type side by side, by their names.

    TensorFlow takes a tenth of a millisecond to take an array over, which for forty columns is more
    than looking their rows up.
    """
    groups: dict[object, list[str]] = {}
    for name, array in batch.items():
        alike = (array.dtype, len(array)) if np.ndim(array) == 1 else name
        groups.setdefault(alike, []).append(name)
    return {
        tuple(names): tf.convert_to_tensor(np.stack([batch[name] for name in names]))
        for names in groups.values()
    }


def _pad_ids(ids: tf.Tensor, most: int) -> tf.Tensor:
    """Return the ids with row 0 added, to a multiple that leaves compiled code few shapes.

    Row 0 is padding, which no step changes: it may stand there many times.

    Args:
        ids: Distinct ids.
        most: How many there could be.
    """
    multiple = 1 << max(most.bit_length() - 5, 6)
    return tf.pad(ids, [[0, -tf.size(ids) % multiple]])
