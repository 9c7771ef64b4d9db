# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from features.schema import Channel, History
from models.kvmemnn import KVMemNN, KVMemNNConfig, roles
from models.layers.masking import length_mask
from models.layers.memory_keys import KeyValueMemory, SimHash, newest, put_back, same_key
from tests.models.against_reference import EmbeddedRow, assert_equals_reference
from tests.models.examples import SCHEMA, make, random_batch, randomise, reference_layers
from tests.reference import kvmemnn as reference
from tests.reference.mlp import mlp

SMALL = {"embedding_dim": 3, "hidden_units": (7, 4), "activation": "prelu"}
CLICKS, BUYS = SCHEMA.histories


def places_of(model, row, history):
    """Places of the events that the reference looks at."""
    length = row.length(history)
    keys = model.roles[history.name].keys
    asked = [c for c in keys if c.target]
    match model.key_hashing:
        case "none":
            return list(range(length))
        case "same_key":
            events = [[int(row.batch[c.name][row.row, t]) for c in asked] for t in range(length)]
            targets = [int(row.batch[c.target][row.row]) for c in asked]
            return reference.sharing(events, targets, model.max_memories)
    sums = sum(row.vectors(c.name, c.table, length) for c in keys)
    question = sum(row.target(c) for c in asked)
    normals, distance = model.sim_hash.normals, model.sim_hash.max_distance
    return reference.near(sums, question, normals, distance, model.max_memories)


def recalled(model, row, history):
    """What the reference answers, and what each event weighs in each hop."""
    keys, values = model.roles[history.name]
    length, places = row.length(history), places_of(model, row, history)

    def sums(channels):
        return sum(row.vectors(c.name, c.table, length) for c in channels)[places]

    question = sum(row.target(c) for c in keys if c.target)
    matrices = [matrix.numpy() for matrix in model.memories[history.name].matrices]
    answer, by_hop = reference.answer(question, sums(keys), sums(values), matrices)
    weights = np.zeros((len(by_hop), row.batch[history.channels[0].name].shape[1]))
    weights[:, places] = by_hop
    return answer - question, weights


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key_columns": ("item",), "value_columns": ("action", "clicks_item"), "num_hops": 3},
        {"key_hashing": "same_key", "max_memories": 2},
        {"key_hashing": "simhash", "hash_bits": 5, "hash_distance": 2, "max_memories": 2},
    ],
)
def test_kvmemnn_equals_the_reference(options, float64):
    model = make("kvmemnn", **SMALL, **options)
    randomise(model)
    batch = random_batch(5, longest=7, seed=8)
    # events of the candidate's own item and category, or same_key would find little
    for name in ("item", "category"):
        own = tf.random.stateless_uniform((5, 7), (1, 2)) < 0.4
        events = batch[f"clicks_{name}"]
        batch[f"clicks_{name}"] = tf.where(own & (events > 0), batch[name][:, None], events)

    def logit(i):
        row = EmbeddedRow(model, batch, i)
        answers = [recalled(model, row, history)[0] for history in model.schema.histories]
        parts = [*row.plain_parts(), *answers, row.numbers()]
        return mlp(np.concatenate(parts), reference_layers(model.mlp)).item()

    assert_equals_reference(model, batch, logit)
    weights = model.history_weights(batch)["clicks"]
    expected = [recalled(model, EmbeddedRow(model, batch, i), CLICKS)[1] for i in range(5)]
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    assert 0 < np.count_nonzero(expected) < np.size(expected)


def test_one_hop_by_hand(float64):
    layer = KeyValueMemory(1)
    big = 40.0
    keys = tf.constant([[[big, 0.0], [0.0, big], [big, 0.0]]], tf.float64)
    values = tf.constant([[[1.0, 2.0], [50.0, 60.0], [3.0, 4.0]]], tf.float64)
    q, weights = layer(tf.constant([[1.0, 0.0]], tf.float64), keys, values, tf.ones([1, 3], bool))
    np.testing.assert_allclose(weights, [[[0.5, 0.0, 0.5]]], atol=1e-12)
    np.testing.assert_allclose(q, [[1.0 + 2.0, 3.0]])  # q + o, R the identity


@pytest.mark.parametrize("places", [1, 50, 500])
@pytest.mark.parametrize("score", [0.0, 2.0])
def test_the_only_filled_slot_takes_all_attention_in_every_hop(places, score):
    # SEQ-04
    keys = tf.pad(tf.ones([1, 1, 2]), [[0, 0], [0, places - 1], [0, 0]])
    mask = length_mask(tf.constant([1]), places)
    q, weights = KeyValueMemory(3)(tf.constant([[score, 0.0]]), keys, keys, mask)
    np.testing.assert_array_equal(weights[0, :, 0], [1.0] * 3)
    np.testing.assert_array_equal(q, [[score + 3.0, 3.0]])


def test_same_key_finds_the_newest_events_that_share_an_id():
    items = tf.constant([[5, 7, 5, 1, 5, 0], [1, 1, 0, 0, 0, 0]])
    kinds = tf.constant([[2, 3, 2, 2, 4, 0], [1, 3, 0, 0, 0, 0]])
    matches = same_key([items, kinds], [tf.constant([5, 1]), tf.constant([3, 1])])
    np.testing.assert_array_equal(matches[0], [True, True, True, False, True, False])
    assert not np.any(matches[1])  # missing equals missing, but tells nothing
    places, kept = newest(matches, 3)
    np.testing.assert_array_equal(places[0], [4, 2, 1])
    np.testing.assert_array_equal(kept, [[True] * 3, [False] * 3])
    assert newest(matches, 99)[0].shape == (2, 6)
    weights = put_back(tf.constant([[[0.5, 0.25, 0.25]], [[0.0] * 3]]), places, 6)
    np.testing.assert_array_equal(weights[0, 0], [0, 0.25, 0.25, 0, 0.5, 0])


def test_simhash_bits_differ_by_the_angle():
    sim_hash = SimHash(2, num_bits=20_000, max_distance=0, seed=3)
    one, other = tf.constant([1.0, 0.0]), tf.constant([1.0, 1.0])  # 45°
    differ = np.mean(sim_hash.bits(one) != sim_hash.bits(other))
    assert differ == pytest.approx(0.25, abs=0.015)  # 5 standard deviations
    assert sim_hash.matches(one[None], 3 * one[None, None]).numpy().all()
    again = SimHash(2, num_bits=20_000, max_distance=0, seed=3)
    np.testing.assert_array_equal(again.normals, sim_hash.normals)


@pytest.mark.parametrize("key_hashing", ["same_key", "simhash"])
def test_what_follows_hashing_sees_only_what_was_kept(key_hashing, monkeypatch):
    model = make("kvmemnn", key_hashing=key_hashing, max_memories=4)
    batch = random_batch(3, longest=1000)
    seen = []
    memory = KeyValueMemory.call
    monkeypatch.setattr(
        KeyValueMemory,
        "call",
        lambda self, q, keys, *rest: seen.append(keys.shape) or memory(self, q, keys, *rest),
    )
    compiled = tf.function(lambda: model(batch), jit_compile=True)()
    np.testing.assert_allclose(compiled, model(batch), rtol=1e-4, atol=1e-5)
    assert {tuple(shape) for shape in seen} == {(3, 4, 16)}


@pytest.mark.parametrize("key_hashing", ["same_key", "simhash"])
def test_only_what_hashing_keeps_is_looked_up_and_no_logit_changes(key_hashing, float64):
    model = make("kvmemnn", key_hashing=key_hashing, max_memories=3, hash_distance=7)
    randomise(model)
    batch = random_batch(6, longest=40)
    narrow = model.narrowed(batch)
    for history in (CLICKS, BUYS):
        assert {narrow[c.name].shape[1] for c in history.channels} == {3}
    assert 0 < np.sum(narrow["clicks_length"]) < np.sum(batch["clicks_length"])
    whole = model.logits(model.embeddings(batch), batch, training=False)
    np.testing.assert_allclose(model(batch), whole, rtol=1e-9)


def test_channels_with_a_target_are_keys_and_the_others_values():
    def names(history, **options):
        found = roles(history, KVMemNNConfig(**options))
        return tuple([channel.name for channel in part] for part in found)

    assert names(CLICKS) == (["clicks_item", "clicks_category"], ["clicks_action"])
    assert names(BUYS) == (["buys_item"], ["buys_item"])
    only = {"key_columns": ("clicks_category",)}
    assert names(CLICKS, **only) == (["clicks_category"], ["clicks_action", "clicks_item"])
    assert names(BUYS, **only) == (["buys_item"], ["buys_item"])


def test_says_what_does_not_fit():
    config = KVMemNNConfig(key_columns=("action",), value_columns=("colour",))
    assert KVMemNN.problems(SCHEMA, config) == [
        "value_columns names `colour`, which no history has; histories have action, buys_item, "
        "category, clicks_action, clicks_category, clicks_item, item",
        "history `clicks`: none of its keys has a `target:`, so kvmemnn has nothing of the "
        "candidate to compare them with; name another in key_columns",
    ]
    history = History(name="h", channels=(Channel(name="h_c", table="t"),), max_items=1)
    assert roles(history, KVMemNNConfig()).keys == []


def test_a_distance_that_every_event_has_is_refused():
    config = KVMemNNConfig(key_hashing="simhash", hash_bits=8, hash_distance=8)
    assert KVMemNN.problems(SCHEMA, config) == [
        "hash_distance of 8 takes every event, as keys have only 8 bits; make it smaller than "
        "hash_bits, or key_hashing none"
    ]
    assert not KVMemNN.problems(SCHEMA, config.model_copy(update={"hash_distance": 7}))
