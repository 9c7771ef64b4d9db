# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from features.schema import Categorical, Channel, FeatureSchema, History, Table
from models.base import BaseConfig
from models.din import DIN, DINConfig
from tests.models.against_reference import EmbeddedRow
from tests.models.examples import (
    SCHEMA,
    WITHOUT_HISTORIES,
    make,
    random_batch,
    randomise,
    reference_function,
    reference_layers,
)
from tests.reference import din as reference
from tests.reference.mlp import Layer
from tests.reference.pooling import pool

SMALL = {"embedding_dim": 3, "hidden_units": (7, 4)}
ROWS = 9


@pytest.mark.parametrize("history_pooling", ["sum", "mean"])
@pytest.mark.parametrize("activation", ["dice", "prelu", "relu"])
def test_base_equals_the_reference(history_pooling, activation):
    model = make("base", history_pooling=history_pooling, activation=activation, **SMALL)
    randomise(model)
    batch = random_batch(ROWS)
    layers = reference_layers(model.mlp)
    expected = []
    for i in range(ROWS):
        row = EmbeddedRow(model, batch, i)
        histories = [
            pool(row.events(h, h.channels), np.ones(row.length(h)), history_pooling)
            for h in SCHEMA.histories
        ]
        parts = [*row.plain_parts(), *histories, row.numbers()]
        expected.append(reference.embedding_mlp_logit(parts, layers))
    np.testing.assert_allclose(model(batch), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("normalisation", ["none", "softmax"])
def test_din_equals_the_reference(normalisation):
    model = make("din", normalisation=normalisation, attention_units=(5, 4), **SMALL)
    randomise(model)
    batch = random_batch(ROWS)
    weights = model.history_weights(batch)
    expected = []
    for i in range(ROWS):
        row = EmbeddedRow(model, batch, i)
        histories = []
        for history in SCHEMA.histories:
            compared = [c for c in history.channels if c.target]
            alone = [c for c in history.channels if not c.target]
            query = np.concatenate([row.vectors(c.target, c.table) for c in compared])
            unit = model.pools[history.name].scorer
            function = reference_function(unit.activation)
            first = Layer(unit.kernel.numpy(), unit.bias.numpy(), function)
            vector, ours = reference.user_vector(
                query,
                row.events(history, [*compared, *alone]),
                [first, *reference_layers(unit.rest)],
                normalisation,
            )
            histories.append(vector)
            length = row.length(history)
            np.testing.assert_allclose(
                weights[history.name][i, 0, :length], ours, rtol=1e-4, atol=1e-5
            )
            np.testing.assert_array_equal(weights[history.name][i, 0, length:], 0.0)
        parts = [*row.plain_parts(), *histories, row.numbers()]
        expected.append(reference.embedding_mlp_logit(parts, reference_layers(model.mlp)))
    np.testing.assert_allclose(model(batch), expected, rtol=1e-5, atol=1e-4)


def test_din_score_depends_on_the_candidate_through_the_history():
    model = make("din", **SMALL)
    randomise(model)
    batch = random_batch(2, lengths=3)
    swapped = batch | {"item": batch["item"][::-1]}
    ours, theirs = (model.event_weights(b)["clicks"] for b in (batch, swapped))
    assert not np.allclose(ours, theirs)


def test_base_works_without_histories_lists_and_numbers():
    model = make("base", features=("user", "item"))
    assert np.isfinite(model(random_batch(3))).all()
    assert BaseConfig(hidden_units=()).hidden_units == ()


def test_din_says_what_does_not_fit():
    config = DINConfig()
    assert DIN.problems(SCHEMA, config) == []
    assert DIN.problems(WITHOUT_HISTORIES, config) == [
        "din needs a history feature and there is none; declare one or use base"
    ]
    assert DIN.problems(SCHEMA.select(("item", "clicks", "buys")), config) == [
        "history `clicks`: its target `category` is not among the model's categorical features; "
        "add it to `features:` or use base"
    ]
    untargeted = FeatureSchema(
        tables=(Table(name="item", rows=5),),
        features=(
            Categorical(name="item", table="item"),
            History(name="past", channels=(Channel(name="p", table="item"),), max_items=2),
        ),
    )
    with pytest.raises(ValueError, match="history `past`: no channel has a `target:`"):
        DIN(untargeted, config)
