# SPDX-License-Identifier: Apache-2.0
"""A run's model: built from its config, its weights as arrays, its best state."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from features.schema import FeatureSchema
from models.ctr_model import CTRModel
from models.registry import build, entry
from pipeline.batches import read_batches
from pipeline.checkpoint import load_arrays
from pipeline.config import RunConfig
from pipeline.errors import MachineFailed
from pipeline.runs import Run


def load_schema(run: Run) -> FeatureSchema:
    """Return the features that the run's model uses."""
    text = (run.dataset / "features" / "schema.json").read_text(encoding="utf-8")
    schema = FeatureSchema.model_validate_json(text)
    chosen = run.config.model.get("features")
    return schema.select(tuple(chosen)) if chosen else schema


def build_model(
    config: RunConfig, schema: FeatureSchema, slot_values: tuple[float, ...] = ()
) -> CTRModel:
    """Build the config's model with weights drawn from the run's seed."""
    keras.utils.set_random_seed(config.seed)
    kind, options = split_kind(config.model)
    return build(kind, schema, options, slot_values)


def split_kind(model: dict[str, Any]) -> tuple[str, Any]:
    """Return a model section's kind and its options as the kind's Config."""
    options = {key: value for key, value in model.items() if key != "kind"}
    return model["kind"], entry(model["kind"]).config.model_validate(options)


def dense_arrays(model: CTRModel) -> dict[str, np.ndarray]:
    """Return all weights but the embedding rows, by position: Keras' names differ by instance."""
    variables = _dense_variables(model)
    return {f"dense {i}": np.asarray(variable) for i, variable in enumerate(variables)}


def _dense_variables(model: CTRModel) -> list[Any]:
    return [v for v in model.variables if v is not model.embeddings.packed]


def assign_dense(model: CTRModel, arrays: dict[str, np.ndarray]) -> None:
    """Set what `dense_arrays` returned."""
    for i, variable in enumerate(_dense_variables(model)):
        variable.assign(arrays[f"dense {i}"])


def load_best(run: Run, schema: FeatureSchema) -> CTRModel:
    """Return the trained model in its best state, without optimiser slots.

    Raises:
        MachineFailed: The disk no longer gives back what was written to it.
    """
    try:
        arrays, _ = load_arrays(run.train / "best")
    except ValueError as error:
        raise MachineFailed(
            f"{error}; delete {run.train}, then the same command trains again"
        ) from error
    model = build_model(run.config, schema)
    batch = next(read_batches(run.dataset / "valid", schema, 2))
    model.build_from({name: tf.convert_to_tensor(array) for name, array in batch.items()})
    model.embeddings.packed.assign(arrays.pop("embeddings"))
    assign_dense(model, arrays)
    return model


def count_parameters(model: CTRModel) -> int:
    """Return the number of trained weights, optimiser slots not counted."""
    embeddings = model.embeddings
    dense = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    return dense + embeddings.num_rows * embeddings.width
