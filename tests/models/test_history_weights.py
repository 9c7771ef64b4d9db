# SPDX-License-Identifier: Apache-2.0
"""Weights of past events are what their caption says; their values: each model's reference test."""

import numpy as np
import pytest

from models.ctr_model import CTRModel
from models.history_weights import ANY, ONE, UP_TO_ONE
from models.registry import MODELS, build, check, entry
from tests.models import examples
from tests.models.examples import (
    SCHEMA,
    STRUCTURES,
    joined,
    padded,
    random_batch,
    randomise,
    rows_of,
)

VARIANTS = [
    ("base", {"history_pooling": "mean"}),
    ("din", {"normalisation": "softmax"}),
    ("din", {"normalisation": "sigmoid"}),
    ("dmn", {"gate_normalisation": "softmax"}),
    ("memnn", {"gating": "none"}),
    ("kvmemnn", {"key_hashing": "same_key", "max_memories": 1}),
]
LINES = {
    "base": 1,
    "din": 1,
    "dien": 1,
    "bst": 8,
    "transformer": 8,
    "sasrec": 1,
    "memn2n": 3,
    "kvmemnn": 2,
    "dmn": 3,
    "memnn": 2,
}
"""Of each model with its defaults."""


def make(kind, **options):
    """A small model with random weights; what is behind the histories does not matter."""
    model = examples.make(kind, **({"hidden_units": (3,), "embedding_dim": 4} | options))
    randomise(model)
    return model


def meaning_of(kind, **options):
    return build(kind, SCHEMA, entry(kind).config(**options)).weights_meaning


def mixed_batch():
    """Rows without events, with all places full, and of random lengths."""
    full = random_batch(2, lengths=5)
    return joined(random_batch(2, lengths=0), full, random_batch(6, seed=8))


@pytest.mark.parametrize(
    ("kind", "options"), [*((k, o) for k, o in STRUCTURES if k in LINES), *VARIANTS]
)
def test_weights_are_finite_zero_at_padding_and_add_up_to_what_is_said(kind, options):
    model = make(kind, **options)
    batch = mixed_batch()
    weights, meaning = model.history_weights(batch), model.weights_meaning
    assert list(weights) == ["clicks", "buys"]
    for history in model.schema.histories:
        found = weights[history.name].numpy()
        rows, lines, items = found.shape
        assert (rows, items) == batch[history.channels[0].name].shape
        assert len(set(meaning.lines(lines))) == lines
        assert np.isfinite(found).all()
        lengths = batch[f"{history.name}_length"].numpy()
        real = np.arange(items) < lengths[:, np.newaxis]
        assert not found[~np.broadcast_to(real[:, np.newaxis], found.shape)].any()
        sums, (least, most) = found.sum(axis=2)[lengths > 0], meaning.total
        assert len(sums) >= 2
        assert (sums >= least - 1e-5).all()
        assert (sums <= most + 1e-5).all()
        if meaning.total == UP_TO_ONE:  # else the caption promises too little
            assert (sums < 1 - 1e-5).any()


@pytest.mark.parametrize("kind", LINES)
def test_weights_depend_on_the_row_alone_and_on_its_candidate_unless_the_caption_denies_it(kind):
    model, batch = make(kind), mixed_batch()
    weights, wider = model.history_weights(batch), model.history_weights(padded(batch, 2))
    alone = model.history_weights(rows_of(batch, [7]))
    for name, found in weights.items():
        assert found.shape[1] == LINES[kind]
        items = found.shape[2]
        np.testing.assert_allclose(wider[name][:, :, :items], found, rtol=1e-4, atol=1e-6)
        assert not wider[name][:, :, items:].numpy().any()
        np.testing.assert_allclose(alone[name][0], found[7], rtol=1e-4, atol=1e-6)
    others = {key: batch[key][::-1] for key in ("item", "category")}
    same = np.allclose(model.history_weights(batch | others)["clicks"], weights["clicks"])
    assert same == (kind in ("base", "sasrec"))


def test_event_weights_are_the_mean_over_lines():
    model, batch = make("memn2n"), random_batch(3)
    for name, found in model.history_weights(batch).items():
        mean = found.numpy().mean(axis=1)
        np.testing.assert_allclose(model.event_weights(batch)[name], mean, rtol=1e-6)


def test_every_model_of_histories_has_weights_with_a_caption():
    with_histories = [kind for kind in MODELS if not check(kind, SCHEMA, entry(kind).config())]
    assert with_histories == list(LINES)
    captions = [meaning_of(kind).caption for kind in with_histories]
    assert len(set(captions)) == len(captions)
    assert all(caption.endswith(".") for caption in captions)
    for kind in set(MODELS) - set(LINES):
        model = entry(kind).model
        assert model.history_weights is CTRModel.history_weights
        assert model.weights_meaning is CTRModel.weights_meaning


@pytest.mark.parametrize(
    ("kind", "options", "words", "total"),
    [
        ("base", {}, "each weighs 1", ANY),
        ("din", {}, "not normalised", ANY),
        ("din", {"normalisation": "softmax"}, "add up to 1", ONE),
        ("dien", {"evolution": "aigru"}, "multiplies the input of the second", ONE),
        ("bst", {}, "attention to itself", UP_TO_ONE),
        ("bst", {"transformer_layers": 3}, "the last of 3 transformer layers", UP_TO_ONE),
        ("transformer", {"decoder_layers": 1}, "Cross-attention of the only decoder layer", ONE),
        ("sasrec", {}, "The candidate does not enter them", ONE),
        ("kvmemnn", {"key_hashing": "simhash"}, "at most the 32 newest", UP_TO_ONE),
        ("dmn", {}, "they do not add up to 1", ANY),
        ("memnn", {"num_slots": 7}, "stored in 7 slots", UP_TO_ONE),
    ],
)
def test_captions_follow_the_options(kind, options, words, total):
    meaning = meaning_of(kind, **options)
    assert words in meaning.caption
    assert meaning.total == total


def test_base_weighs_events_alike():
    batch = random_batch(6, lengths=2)
    found = make("base").history_weights(batch)["clicks"].numpy()
    assert (found[:, 0, :2] == 1).all()
    mean = make("base", history_pooling="mean").history_weights(batch)["clicks"].numpy()
    assert (mean[:, 0, :2] == 0.5).all()
