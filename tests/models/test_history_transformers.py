# SPDX-License-Identifier: Apache-2.0
"""BST, the transformer and SASRec against references written from their papers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from features.schema import Categorical, Channel, FeatureSchema, History, Table
from models.bst import BST, BSTConfig
from models.registry import build, entry
from tests.models.against_reference import EmbeddedRow, assert_equals_reference
from tests.models.examples import SCHEMA, make, random_batch, randomise, reference_layers
from tests.models.transformers import blocks_of, norm_of
from tests.reference import transformer as reference
from tests.reference.din import embedding_mlp_logit
from tests.reference.positions import sinusoidal

SMALL = {"embedding_dim": 2, "hidden_units": (5,), "num_heads": 3, "feed_forward_units": 3}
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
WITH_GAP = FeatureSchema(
    tables=(Table(name="item", rows=23), Table(name="gap", rows=6)),
    features=(
        Categorical(name="user", table="item"),
        Categorical(name="item", table="item"),
        History(
            name="buys",
            channels=(
                Channel(name="buys_gap", table="gap", time_gap=True),
                Channel(name="buys_item", table="item", target="item"),
            ),
            max_items=2,
        ),
    ),
)


def learned_ranks(layer, length):
    """Rows of the ranks of real events, the newest with rank 0."""
    return layer.vectors.numpy()[np.arange(length)[::-1]]


def bst_vector(model, row, history):
    """Chen et al. 2019: the outputs of the candidate and, on average, of the events."""
    layer, length = model.tokens[history.name], row.length(history)
    missing = np.zeros(0) if layer.missing is None else layer.missing.numpy()
    target = np.concatenate([row.query(history), missing])
    tokens = np.concatenate([target[np.newaxis], row.events(history)])
    if layer.ranks:
        vectors = layer.ranks.vectors.numpy()
        ranks = [vectors[0], *(vectors[length - t] for t in range(length))]
        tokens = np.concatenate([tokens, np.array(ranks)], axis=1)
    encoded, weights = reference.encode(tokens, blocks_of(model.encoders[history.name]))
    events = encoded[1:].mean(axis=0) if length else np.zeros(encoded.shape[1])
    return np.concatenate([encoded[0], events]), weights[0][:, 1:]


def transformer_vector(model, row, history):
    """Vaswani et al. 2017: the decoded features of the candidate."""
    events, name = row.events(history), history.name
    length, dim = events.shape
    layer = model.positions.get(name)
    if layer and layer.kind == "learned":
        events = events + learned_ranks(layer, length)
    elif layer:
        ranks = [sinusoidal(length - 1 - t, dim) for t in range(length)]
        events = events + np.reshape(ranks, (length, dim)) * layer.scale.numpy()
    tokens = events * np.sqrt(dim)
    encoder, decoder = model.encoders[name], model.decoders[name]
    encoded, _ = reference.encode(
        tokens, blocks_of(encoder), norm_of(encoder.last_norm), encoder.causal
    )
    into = model.targets[name]
    vectors = np.split(row.query(history), into.count)
    queries = [into.start.numpy()] + [
        v @ kernel + bias
        for v, kernel, bias in zip(vectors, into.kernel.numpy(), into.bias.numpy(), strict=True)
    ]
    decoded, weights = reference.decode(
        np.array(queries), encoded, blocks_of(decoder), norm_of(decoder.last_norm)
    )
    return decoded[1:].reshape(-1), np.mean(weights[1:], axis=0)


def sasrec_vector(model, row, history):
    """Kang & McAuley 2018: the output at the newest event."""
    events, encoder = row.events(history), model.encoders[history.name]
    if not len(events):
        return np.zeros(events.shape[1]), np.zeros((encoder.blocks[0].options.num_heads, 0))
    tokens = events + learned_ranks(model.positions[history.name], len(events))
    encoded, weights = reference.encode(
        tokens, blocks_of(encoder), norm_of(encoder.last_norm), causal=True
    )
    return encoded[-1], weights[-1]


VECTORS = {"bst": bst_vector, "transformer": transformer_vector, "sasrec": sasrec_vector}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bst", {}),
        ("transformer", {}),
        ("transformer", {"positions": "learned", "order": "pre", "causal": True}),
        ("sasrec", {"encoder_layers": 1}),
    ],
)
def test_model_equals_the_reference(kind, options, float64):
    layers = ONE_LAYER if kind == "transformer" else {}
    model = make(kind, **SMALL, **layers, **options)
    randomise(model)
    assert_model_equals_reference(model, kind, random_batch(3))


def assert_model_equals_reference(model, kind, batch):
    def logit(index):
        row, match = EmbeddedRow(model, batch, index), 0.0
        parts = row.plain_parts()
        for history in model.schema.histories:
            vector, _ = VECTORS[kind](model, row, history)
            if kind == "sasrec":
                query = row.query(history)
                match += vector[: len(query)] @ query
            parts.append(vector)
        layers = reference_layers(model.mlp)
        return match + embedding_mlp_logit([*parts, row.numbers()], layers)

    assert_equals_reference(model, batch, logit)
    heads, means = model.history_weights(batch), model.event_weights(batch)
    for index in range(3):
        row = EmbeddedRow(model, batch, index)
        for history in model.schema.histories:
            _, expected = VECTORS[kind](model, row, history)
            found = heads[history.name][index].numpy()
            length = row.length(history)
            np.testing.assert_allclose(found[:, :length], expected, rtol=1e-8, atol=1e-12)
            assert not found[:, length:].any()
            np.testing.assert_allclose(means[history.name][index], found.mean(axis=0))


def gap_batch(rows):
    random, taken = np.random.default_rng(1), ("user", "item", "buys_item", "buys_length")
    batch = {key: value for key, value in random_batch(rows).items() if key in taken}
    batch["user"] %= 22
    gaps = random.integers(1, 6, (rows, 2))
    batch["buys_gap"] = tf.where(batch["buys_item"] > 0, tf.constant(gaps, tf.int32), 0)
    return batch


def test_bst_takes_the_gap_channel_for_positions(float64):
    assert WITH_GAP.histories[0].time_gap
    assert not any(history.time_gap for history in SCHEMA.histories)
    model = BST(WITH_GAP, BSTConfig(**SMALL))
    batch = gap_batch(3)
    model.build_from(batch)
    randomise(model)
    assert model.tokens["buys"].ranks is None
    assert_model_equals_reference(model, "bst", batch)


@pytest.mark.parametrize(
    ("kind", "options", "sees_order"),
    [
        ("transformer", ONE_LAYER | {"positions": "none"}, False),
        ("transformer", ONE_LAYER, True),
        ("transformer", ONE_LAYER | {"positions": "none", "causal": True}, True),
        ("bst", {}, True),
        ("sasrec", {}, True),
        ("dien", {}, True),
        ("din", {}, False),
        ("base", {}, False),
    ],
)
def test_order_of_events_matters_where_the_model_sees_it(kind, options, sees_order):
    keras.utils.set_random_seed(1)
    model = make(kind, **options)
    randomise(model)
    batch = random_batch(6, lengths=5)
    reverse = {
        key: value[:, ::-1] if key.startswith(("clicks_", "buys_")) and value.shape.rank == 2
        else value
        for key, value in batch.items()
    }  # fmt: skip
    close = np.allclose(model(reverse), model(batch), rtol=1e-4, atol=1e-5)
    assert close != sees_order


@pytest.mark.parametrize("kind", ["dien", *VECTORS])
def test_what_does_not_fit_is_said_in_words(kind):
    without = SCHEMA.select(("user", "item"))
    with pytest.raises(ValueError, match=f"{kind} needs a history feature and there is none"):
        build(kind, without, entry(kind).config())
    untargeted = SCHEMA.select(("user", "buys"))
    with pytest.raises(ValueError, match="its target `item` is not among the model's"):
        build(kind, untargeted, entry(kind).config())
