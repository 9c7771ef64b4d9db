# SPDX-License-Identifier: Apache-2.0
"""What a model multiplies the products of its pairs of fields by, for the report."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from features.schema import FeatureSchema
from models.ctr_model import CTRModel
from pipeline.batches import batch_keys, read_batches

MOST_ROWS = 10_000
"""Rows whose attention is averaged: the first ones, and rows lie shuffled."""
_BATCH_ROWS = 500


def pair_weights(model: CTRModel, schema: FeatureSchema, folder: Path) -> dict[str, Any] | None:
    """Return the weights of the pairs of fields, attention as its mean over some rows.

    Args:
        model: The model.
        schema: Features that it reads.
        folder: Encoded rows.

    Returns:
        `kind` (attention or strength), `fields`, `rows` averaged over, and `values` as a list of
        lists, 0 unless i < j; None where the model has no such weights, or there is no row.
    """
    kind = model.pair_weight_name
    if kind is None or len(model.field_names) < 2:
        return None
    batches = read_batches(folder, schema, _BATCH_ROWS, carry=())
    most = MOST_ROWS // _BATCH_ROWS if kind == "attention" else 1  # a strength is of all rows
    total, rows = np.zeros((len(model.field_names),) * 2), 0
    for batch in islice(batches, most):
        tensors = {key: tf.convert_to_tensor(batch[key]) for key in batch_keys(schema)}
        found = np.asarray(model.pair_weights(tensors), np.float64)
        total += found.sum(axis=0)
        rows += len(found)
    if not rows:
        return None
    values = (total / rows).tolist()
    return {"kind": kind, "fields": list(model.field_names), "rows": rows, "values": values}
