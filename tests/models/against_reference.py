# SPDX-License-Identifier: Apache-2.0
"""Rows as the references of models of fields take them, and the comparison with a reference."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.layers.fields import FieldLinearAndVectors, FieldVectors, LinearAndVectors
from tests.reference.pooling import pool


def tables_of(model):
    """The rows of every table by its name, cut in NumPy: slices of tensors take far longer."""
    embeddings = model.embeddings
    packed, offsets = embeddings.packed.numpy()[:, : embeddings.width], embeddings.offsets
    return {
        table.name: packed[offsets[table.name] : offsets[table.name] + table.rows]
        for table in embeddings.tables
    }


def field_rows(model, layer, batch, row, list_pooling):
    """x_i and what the tables hold of each field of one row, looked up by hand.

    `layer` is the model's `FieldRows`. Of a list x is 1, and its row the pooled one.
    """
    tables, batch = tables_of(model), {key: value.numpy() for key, value in batch.items()}
    numeric_rows = layer.numeric_rows.numpy() if layer.numeric else ()
    values, rows = [], []
    for feature in model.schema.categorical:
        values.append(1.0)
        rows.append(tables[feature.table][batch[feature.name][row]])
    for feature in model.schema.lists:
        length = int(batch[f"{feature.name}_length"][row])
        items = tables[feature.table][batch[feature.name][row, :length]]
        weights = np.ones(length)
        if feature.weighted:
            weights = batch[f"{feature.name}_weight"][row, :length].astype(float)
        values.append(1.0)
        rows.append(pool(items, weights, list_pooling))
    for feature, numeric_row in zip(layer.numeric, numeric_rows, strict=True):
        values.append(float(batch[feature.name][row]))
        rows.append(numeric_row)
    return np.array(values), np.array(rows)


class Row(NamedTuple):
    """One row of a batch: its linear part, its x_i v_i (fields, dim), its dense numbers."""

    linear: float
    vectors: np.ndarray
    numbers: np.ndarray


def parts(model, batch, row):
    """A row of a batch as a model with `FieldVectors` takes it."""
    layer: FieldVectors = model.fields
    values, rows = field_rows(model, layer.rows, batch, row, layer.rows.list_pooling)
    numbers = np.array([float(batch[number.name].numpy()[row]) for number in layer.dense])
    linear = 0.0
    match layer:
        case LinearAndVectors():
            linear = float(layer.bias) + np.dot(values, rows[:, -1])
            rows = rows[:, :-1]
            if layer.dense:
                linear += np.dot(numbers, layer.weights_of_numbers.numpy())
        case FieldLinearAndVectors():
            inputs = np.concatenate([(values[:, None] * rows).reshape(-1), numbers])
            linear = float(layer.bias) + np.dot(inputs, layer.weights_of_fields.numpy()[:, 0])
    return Row(linear, values[:, None] * rows, numbers)


class EmbeddedRow:
    """One row of a batch as an `EmbeddingMLP` takes it, vectors looked up by hand."""

    def __init__(self, model, batch, row):
        self.model, self.row = model, row
        self.batch = {key: value.numpy() for key, value in batch.items()}
        self.tables = tables_of(model)

    def vectors(self, key, table, length=None):
        ids = self.batch[key][self.row]
        return self.tables[table][ids if length is None else ids[:length]]

    def length(self, feature):
        return int(self.batch[f"{feature.name}_length"][self.row])

    def target(self, channel):
        """What of the candidate a channel repeats."""
        return self.vectors(channel.target, channel.table)

    def query(self, history):
        """What the history's channels repeat of the candidate."""
        return np.concatenate([self.target(c) for c in history.channels if c.target])

    def events(self, history, channels=None):
        """Its real events; channels in the order of `query`, then the rest, if none are given."""
        channels = channels or sorted(history.channels, key=lambda c: c.target is None)
        length = self.length(history)
        return np.concatenate([self.vectors(c.name, c.table, length) for c in channels], axis=1)

    def plain_parts(self):
        """Everything before the histories: of a row that holds several vectors, the first."""
        dim = self.model.dim
        parts = [self.vectors(f.name, f.table)[:dim] for f in self.model.schema.categorical]
        for feature in self.model.schema.lists:
            length = self.length(feature)
            weights = np.ones(length)
            if feature.weighted:
                weights = self.batch[f"{feature.name}_weight"][self.row, :length].astype(float)
            items = self.vectors(feature.name, feature.table, length)[:, :dim]
            parts.append(pool(items, weights, "mean"))
        return parts

    def numbers(self):
        return np.array([float(self.batch[f.name][self.row]) for f in self.model.schema.numeric])


def assert_equals_reference(model, batch, reference, seed=0):
    """A model in float64 agrees with a reference, and its gradients with its finite differences.

    `reference(row)` returns the logit of one row of the batch from the model's weights.
    """
    count = batch["user"].shape[0]
    random = np.random.default_rng(seed)
    factors = random.normal(size=count)

    def total():
        return sum(factors[row] * reference(row) for row in range(count))

    np.testing.assert_allclose(model(batch), [reference(row) for row in range(count)], rtol=1e-9)
    packed = model.embeddings.packed
    variables = [*model.trainable_variables, packed]
    values = [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = tf.reduce_sum(model.logits(model.embeddings(batch), batch, training=False) * factors)
    slopes = tape.gradient(loss, values)
    step = 1e-6
    for variable, gradient in zip(variables, slopes, strict=True):
        before = variable.numpy()
        way = random.normal(size=before.shape)
        if variable is packed:
            way[list(model.embeddings.offsets.values())] = 0.0
        ends = []
        for sign in (step, -step):
            variable.assign(before + sign * way)
            ends.append(total())
        variable.assign(before)
        slope = np.sum(tf.convert_to_tensor(gradient) * way)
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7, err_msg=variable.path)


def assert_layer_equals_reference(layer, inputs, reference, call=None, *others, seed=0):
    """A layer in float64 agrees with a reference, and its gradients with its finite differences.

    `reference(*inputs)` computes what `call(*inputs)`, else the layer, returns, from the layer's
    weights and those of `others`. Weights get random values first.
    """
    random = np.random.default_rng(seed)
    call = call or layer
    tensors = [tf.constant(array) for array in inputs]
    call(*tensors)
    variables = [v for each in (layer, *others) for v in each.trainable_variables]
    for variable in variables:
        variable.assign(random.normal(size=variable.shape))
    values = [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        tape.watch([*tensors, *values])
        result = call(*tensors)
        factors = random.normal(size=result.shape)
        loss = tf.reduce_sum(result * factors)
    np.testing.assert_allclose(result, reference(*inputs), rtol=1e-9, atol=1e-12)
    slopes = tape.gradient(loss, [*tensors, *values], unconnected_gradients="zero")
    step = 1e-6

    def total(arrays):
        return np.sum(reference(*arrays) * factors)

    for place, array in enumerate(inputs):
        way = random.normal(size=array.shape)
        ends = [
            total([*inputs[:place], array + sign * way, *inputs[place + 1 :]])
            for sign in (step, -step)
        ]
        expected = (ends[0] - ends[1]) / (2 * step)
        slope = np.sum(slopes[place] * way)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7, err_msg=f"input {place}")
    for variable, gradient in zip(variables, slopes[len(inputs) :], strict=True):
        before = variable.numpy()
        way = random.normal(size=before.shape)
        ends = []
        for sign in (step, -step):
            variable.assign(before + sign * way)
            ends.append(total(inputs))
        variable.assign(before)
        expected = (ends[0] - ends[1]) / (2 * step)
        slope = np.sum(tf.convert_to_tensor(gradient) * way)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7, err_msg=variable.path)
