# SPDX-License-Identifier: Apache-2.0
"""A schema with every kind of feature, random batches of it, and the references' view of layers."""

import keras
import numpy as np
import tensorflow as tf

from features.schema import (
    FIRST_UNKNOWN,
    Categorical,
    CategoricalList,
    Channel,
    FeatureSchema,
    History,
    Numeric,
    Table,
    length_key,
    weight_key,
)
from models.layers.activations import Dice, Elementwise, PReLU
from models.registry import MODELS, build, check, entry
from tests.reference import mlp as reference

SCHEMA = FeatureSchema(
    tables=(
        Table(name="user", rows=43),
        Table(name="item", rows=23),
        Table(name="category", rows=11),
        Table(name="tag", rows=9),
        Table(name="action", rows=6),
    ),
    features=(
        Categorical(name="user", table="user"),
        Categorical(name="item", table="item"),
        Categorical(name="category", table="category"),
        CategoricalList(name="tags", table="tag", max_items=3),
        CategoricalList(name="topics", table="tag", max_items=4, weighted=True),
        Numeric(name="price"),
        Numeric(name="age"),
        History(
            name="clicks",
            channels=(
                Channel(name="clicks_action", table="action"),  # the candidate has none
                Channel(name="clicks_item", table="item", target="item"),
                Channel(name="clicks_category", table="category", target="category"),
            ),
            max_items=5,
        ),
        History(
            name="buys",
            channels=(Channel(name="buys_item", table="item", target="item"),),
            max_items=2,
        ),
    ),
)
WITHOUT_HISTORIES = SCHEMA.select(
    tuple(feature.name for feature in SCHEMA.features if feature.kind != "history")
)

LEAKY_SLOPE = float(np.float32(0.2))  # TensorFlow keeps it in single precision


def make(kind, seed=1, **options):
    """A model of that kind on as much of `SCHEMA` as it takes, built, weights from the seed."""
    config = entry(kind).config(**options)
    schema = WITHOUT_HISTORIES if check(kind, SCHEMA, config) else SCHEMA
    keras.utils.set_random_seed(seed)
    model = build(kind, schema, config)
    model.build_from(random_batch(2))
    return model


def randomise(model, seed=5):
    """Give every weight a value that a trained model could have; padding rows stay zero."""
    random = np.random.default_rng(seed)
    for variable in model.weights:
        values = random.normal(size=variable.shape) * 0.5
        if "kernel" in variable.name:  # wide layers would saturate the loss
            values /= np.sqrt(max(1.0, np.prod(variable.shape[:-1]) / 8))
        if "variance" in variable.path:
            values = np.abs(values) + 0.1
        variable.assign(values)
    packed = model.embeddings.packed.numpy()
    packed[list(model.embeddings.offsets.values())] = 0.0
    model.embeddings.packed.assign(packed)


def random_batch(rows, seed=3, longest=None, lengths=None):
    """A batch of `SCHEMA` as tensors; lengths are random unless one is given for all."""
    random = np.random.default_rng(seed)
    tables = {table.name: table.rows for table in SCHEMA.tables}
    batch = {}

    def bag(keys, name, places):
        count = random.integers(0, places + 1, rows) if lengths is None else [lengths] * rows
        batch[length_key(name)] = np.minimum(count, places).astype(np.int32)
        real = np.arange(places) < batch[length_key(name)][:, None]
        for key, table in keys:
            ids = random.integers(1, tables[table], (rows, places))
            batch[key] = np.where(real, ids, 0).astype(np.int32)
        return real

    for feature in SCHEMA.features:
        places = getattr(feature, "max_items", None)
        if longest and places:
            places = longest
        match feature.kind:
            case "categorical":
                ids = random.integers(1, tables[feature.table], rows)
                batch[feature.name] = ids.astype(np.int32)
            case "numeric":
                batch[feature.name] = random.normal(size=rows).astype(np.float32)
            case "list":
                real = bag([(feature.name, feature.table)], feature.name, places)
                if feature.weighted:
                    weights = np.where(real, random.uniform(0.1, 2.0, real.shape), 0.0)
                    batch[weight_key(feature.name)] = weights.astype(np.float32)
            case "history":
                bag([(c.name, c.table) for c in feature.channels], feature.name, places)
    return {key: tf.constant(value) for key, value in batch.items()}


def padded(batch, extra=7):
    """The same rows with more empty places in every list and history."""
    return {
        key: tf.pad(value, [[0, 0], [0, extra]]) if value.shape.rank == 2 else value
        for key, value in batch.items()
    }


def unknown(batch):
    """The same rows with every id unknown."""
    tables = dict(SCHEMA.id_columns())
    return {
        key: tf.where(value > 0, FIRST_UNKNOWN, value) if key in tables else value
        for key, value in batch.items()
    }


def rows_of(batch, index):
    """The rows at these places, in their order."""
    return {key: tf.gather(value, index) for key, value in batch.items()}


def joined(*batches):
    """The rows of all batches, one after the other."""
    return {key: tf.concat([batch[key] for batch in batches], axis=0) for key in batches[0]}


def reference_layers(mlp):
    """What the reference needs to know of an `MLP`."""
    hidden = [
        reference.Layer(dense.kernel.numpy(), dense.bias.numpy(), reference_function(activation))
        for dense, activation in zip(mlp.hidden, mlp.activations, strict=True)
    ]
    last = mlp.output_layer
    return [*hidden, dense_layer(last)] if last else hidden


def dense_layer(dense):
    """What the reference needs to know of a linear layer."""
    return reference.Layer(dense.kernel.numpy(), dense.bias.numpy())


def reference_function(activation):
    """An activation layer as a NumPy function with the layer's weights in inference."""
    match activation:
        case Dice():
            weights = (activation.alpha, activation.mean, activation.variance)
            alpha, mean, variance = (weight.numpy() for weight in weights)
            return lambda s: reference.dice(s, alpha, mean, variance)
        case PReLU():
            alpha = activation.alpha.numpy()
            return lambda s: np.where(s > 0, s, alpha * s)
        case Elementwise(function=keras.activations.leaky_relu):
            return lambda s: np.where(s > 0, s, LEAKY_SLOPE * s)
        case _:
            return lambda s: np.maximum(s, 0)


_FIELDS = [{}, {"embedding_dim": 3, "numeric_input": "dense"}, {"numeric_input": "none"}]
_DEEP = [*_FIELDS, {"hidden_units": (5, 4), "activation": "dice"}, {"hidden_units": ()},
        {"hidden_units": (5, 4), "batch_norm": True, "activation": "prelu"}]  # fmt: skip
_OPTIONS = {
    "lr": [{}, {"features": ("item", "price")}],
    "fm": [*_FIELDS, {"features": ("user",)}],
    "ffm": _FIELDS,
    "fwfm": [*_FIELDS, *({"linear_term": "weights"} | options for options in _FIELDS)],
    "fmfm": _FIELDS,
    "afm": [*_FIELDS, {"attention_units": 3}],
    "nfm": _DEEP,
    "wide_deep": _DEEP,
    "deepfm": _DEEP,
    "dcn": [*_DEEP, *({"structure": "parallel", "cross_layers": 3} | options for options in _DEEP),
            {"rank": 2}, {"rank": 3, "structure": "parallel"}, {"cross_layers": 0}],
    "xdeepfm": [*_DEEP, {"cin_units": (3,)}, {"cin_units": (3, 4, 5, 6)}],
    "autoint": [{}, {"numeric_input": "none"}, {"interacting_layers": 1, "num_heads": 3},
                {"hidden_units": (5, 4)}, {"numeric_input": "dense", "hidden_units": (5,)}],
    "finalmlp": [{}, {"gate_hidden_units": None}, {"gate_features": ("item", "price")},
                 {"hidden_units": (6, 4), "second_hidden_units": (8,), "num_heads": 2},
                 {"numeric_input": "fields", "second_gate_features": ("tags",)}],
    "base": [{}, {"hidden_units": (3,), "activation": "relu"}, {"hidden_units": ()}],
    "din": [{}, {"attention_units": (3,)}, {"attention_activation": "relu", "embedding_dim": 2}],
    "dien": [{}, {"evolution": "agru", "embedding_dim": 3}, {"evolution": "aigru"}],
    "bst": [{}, {"transformer_layers": 2, "num_heads": 3, "feed_forward_units": 5}],
    "transformer": [{}, {"order": "pre", "positions": "learned", "causal": True, "num_heads": 3,
                         "decoder_layers": 1},
                    {"positions": "none", "encoder_layers": 1, "decoder_layers": 1,
                     "embedding_dim": 3}],
    "sasrec": [{}, {"encoder_layers": 1, "num_heads": 3, "embedding_dim": 5}],
    "memn2n": [{}, {"num_hops": 1}, {"tying": "layer_wise", "embedding_dim": 3},
               {"temporal_encoding": False}],
    "kvmemnn": [{}, {"num_hops": 3, "key_columns": ("item",)}, {"key_hashing": "same_key"},
                {"key_hashing": "simhash", "max_memories": 2}],
    "dmn": [{}, {"memory_units": 3, "num_episodes": 1, "gate_units": 2}],
    "memnn": [{}, {"num_slots": 3, "embedding_dim": 3}, {"temporal_encoding": False}],
}  # fmt: skip
STRUCTURES = [(kind, options) for kind in MODELS for options in _OPTIONS.get(kind, [{}])]
"""Every kind with the options that decide what it is made of; a new one with its defaults."""
