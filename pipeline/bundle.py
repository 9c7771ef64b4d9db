# SPDX-License-Identifier: Apache-2.0
"""The served model: a SavedModel that takes raw values, and how rows are fed to it."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from features.graph import FeatureGraph
from features.inputs import RawInput
from features.raw import MISSING_INTEGER
from features.schema import weight_key
from models.ctr_model import CTRModel
from pipeline.batches import pad_lists
from pipeline.errors import InputRejected
from pipeline.runs import damaged, file_sums, read_sealed, write_sealed

SCORE, LOGIT, EXAMPLES = "score", "logit", "examples"
EXTRA = "assets.extra"
FACTS = "clickloom.json"


class ServedModel(tf.Module):
    """Raw inputs to click probabilities; what the SavedModel holds.

    Signatures: `serving_default` takes one tensor per input, `serve_examples` serialized
    `tf.train.Example`s. Both return `score`, the probability of a click, and `logit`, float32
    (batch,).
    """

    def __init__(self, graph: FeatureGraph, model: CTRModel) -> None:
        super().__init__()
        self.graph = graph

        def logits(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return model(batch, training=False)

        # the Keras object itself would bring a signature of its own that knows no integers
        self._logits = logits
        self.weights = [variable.value for variable in model.variables]

    def score(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return `score` and `logit` of raw inputs."""
        logits = self._logits(self.graph(inputs))
        return {SCORE: tf.sigmoid(logits), LOGIT: logits}

    def parse(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the raw inputs in serialized examples.

        A feature that an optional column lacks is missing; an unknown one is ignored.
        """
        parsed = tf.io.parse_example(examples, self._example_spec())
        inputs: dict[str, tf.Tensor] = {}
        for name, value in parsed.items():
            ragged = isinstance(value, tf.RaggedTensor)
            inputs[name] = value.to_tensor() if ragged else value
        for key, name in self.graph.lengths().items():
            inputs[key] = tf.cast(parsed[name].row_lengths(), tf.int32)
        for raw in self.graph.inputs:
            if raw.weight_separator is not None:
                weights = parsed[weight_key(raw.name)]
                inputs[weight_key(raw.name)] = _as_wide(weights, inputs[raw.name])
        return inputs

    def _example_spec(self) -> dict[str, Any]:
        features: dict[str, Any] = {}
        for raw in self.graph.inputs:
            match raw.type:
                case "texts":
                    features[raw.name] = tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64)
                case "text":
                    features[raw.name] = _fixed(raw, tf.string, "")
                case "integer":
                    features[raw.name] = _fixed(raw, tf.int64, MISSING_INTEGER)
                case "number":
                    features[raw.name] = _fixed(raw, tf.float32, float("nan"))
            if raw.weight_separator is not None:
                features[weight_key(raw.name)] = tf.io.RaggedFeature(tf.float32)
        for history in self.graph.schema.histories:
            for channel in self.graph.channels(history):
                dtype = self.graph.signature()[channel].dtype
                features[channel] = tf.io.RaggedFeature(dtype)
        return features


def _as_wide(weights: tf.RaggedTensor, items: tf.Tensor) -> tf.Tensor:
    """Return weights of the items' shape (batch, items); a weight that is not given is 1."""
    width = tf.shape(items)[1]
    given = weights.to_tensor(default_value=1.0)[:, :width]
    return tf.pad(given, [[0, 0], [0, width - tf.shape(given)[1]]], constant_values=1.0)


def _fixed(raw: RawInput, dtype: tf.DType, missing: Any) -> tf.io.FixedLenFeature:
    return tf.io.FixedLenFeature([], dtype, None if raw.required else missing)


def save_bundle(served: ServedModel, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the SavedModel and, in `assets.extra`, what a reader needs to know about it."""
    signature = served.graph.signature()

    @tf.function(autograph=False, input_signature=[signature])
    def serving_default(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return served.score(inputs)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name=EXAMPLES)])
    def serve_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return served.score(served.parse(examples))

    tf.saved_model.save(
        served,
        str(folder),
        signatures={"serving_default": serving_default, "serve_examples": serve_examples},
    )
    sums = file_sums(folder)
    extra = folder / EXTRA
    extra.mkdir()
    write_sealed(extra / FACTS, {**facts, "files": sums})


def load_facts(bundle: Path) -> dict[str, Any]:
    """Return what `save_bundle` was told about a bundle, all of whose files are whole.

    Raises:
        FileNotFoundError: The folder holds no bundle of this project.
        InputRejected: A file of it is damaged; served scores might be wrong.
    """
    path = bundle / EXTRA / FACTS
    if not path.exists():
        raise FileNotFoundError(f"{bundle}: holds no {EXTRA}/{FACTS}; expected an exported version")
    try:
        facts = read_sealed(path)
        broken = damaged(bundle, facts["files"])
    except ValueError:
        broken = [f"{EXTRA}/{FACTS}"]
    if broken:
        raise InputRejected(
            f"{bundle}: {', '.join(broken)}: not as exported, cut off in copying or damaged; copy "
            "the version again, or export it again"
        )
    return facts


def feed(
    table: pa.Table, signature: Mapping[str, tf.TensorSpec], lengths: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Turn raw rows into the input tensors of `serving_default`.

    Args:
        table: Columns named after inputs; null is missing; lists are padded here.
        signature: Specs of the inputs by name.
        lengths: By length input, the list input whose length it is (`FeatureGraph.lengths`).
    """
    inputs: dict[str, np.ndarray] = {}
    for name, spec in signature.items():
        if name in lengths:
            items = table[lengths[name]].combine_chunks()
            inputs[name] = pc.list_value_length(items).to_numpy(zero_copy_only=False)
            inputs[name] = inputs[name].astype(np.int32)
            continue
        column = table[name].combine_chunks()
        is_list = pa.types.is_list(column.type)
        inputs[name] = (_padded if is_list else _filled)(column, spec.dtype)
    return inputs


def _filled(column: pa.Array, dtype: tf.DType) -> np.ndarray:
    if dtype == tf.string:
        texts = pc.fill_null(column.cast(pa.string()), "")
        return np.array([text.encode() for text in texts.to_pylist()], dtype=object)
    if dtype == tf.int64:
        return pc.fill_null(column.cast(pa.int64()), MISSING_INTEGER).to_numpy()
    return pc.fill_null(column.cast(pa.float32()), float("nan")).to_numpy()


def _padded(column: pa.ListArray, dtype: tf.DType) -> np.ndarray:
    longest = pc.max(pc.list_value_length(column)).as_py() or 0
    flat = _filled(column.values, dtype)
    if dtype != tf.string:
        values = pa.array(flat)
        return pad_lists(pa.ListArray.from_arrays(column.offsets, values), max(longest, 1))
    offsets = column.offsets.to_numpy()
    padded = np.full((len(column), max(longest, 1)), b"", dtype=object)
    for row, (start, stop) in enumerate(pairwise(offsets)):
        padded[row, : stop - start] = flat[start:stop]
    return padded


def to_examples(table: pa.Table, signature: Mapping[str, tf.TensorSpec]) -> np.ndarray:
    """Serialize raw rows as `tf.train.Example`s; missing values are left out."""
    rows = table.select([name for name in signature if name in table.column_names]).to_pylist()
    return np.array([_example(row, signature) for row in rows], dtype=object)


def _example(row: Mapping[str, Any], signature: Mapping[str, tf.TensorSpec]) -> bytes:
    features = {}
    for name, value in row.items():
        dtype = signature[name].dtype
        values = value if isinstance(value, list) else [value]
        filled = [_missing(dtype) if item is None else item for item in values]
        if dtype == tf.string:
            texts = tf.train.BytesList(value=[str(item).encode() for item in filled])
            features[name] = tf.train.Feature(bytes_list=texts)
        elif dtype == tf.int64:
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=filled))
        else:
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=filled))
    example = tf.train.Example(features=tf.train.Features(feature=features))
    serialized: bytes = example.SerializeToString(deterministic=True)
    return serialized


def _missing(dtype: tf.DType) -> Any:
    return {tf.string: "", tf.int64: MISSING_INTEGER, tf.float32: float("nan")}[dtype]
