# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.autoint import AutoInt, AutoIntConfig, InteractingLayer
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import (
    WITHOUT_HISTORIES,
    dense_layer,
    make,
    random_batch,
    randomise,
    reference_layers,
)
from tests.reference.autoint import interacting_layer
from tests.reference.mlp import mlp


def reference_interacting(layer, fields):
    kernels = (layer.query, layer.key, layer.value)
    heads = zip(*(np.split(k.numpy(), layer.num_heads, axis=1) for k in kernels), strict=True)
    return interacting_layer(fields, list(heads), layer.residual.numpy())


@pytest.mark.parametrize("hidden_units", [(), (4, 3)])
def test_autoint_equals_the_reference(hidden_units, float64):
    model = make(
        "autoint", embedding_dim=3, interacting_layers=2, head_dim=4, hidden_units=hidden_units
    )
    randomise(model)
    batch = random_batch(3)

    def reference(index):
        row = parts(model, batch, index)
        fields = row.vectors
        for layer in model.interacting:
            fields = reference_interacting(layer, fields)
        logit = mlp(fields.reshape(-1), [dense_layer(model.output_layer)]).item()
        if hidden_units:
            logit += mlp(row.vectors.reshape(-1), reference_layers(model.mlp)).item()
        return logit

    assert_equals_reference(model, batch, reference)


def test_fields_that_are_equal_come_out_equal():
    fields = tf.repeat(tf.random.stateless_normal((2, 1, 5), (1, 2)), 4, axis=1)
    outputs = InteractingLayer(2, 3)(fields).numpy()
    assert outputs.shape == (2, 4, 6)
    np.testing.assert_allclose(outputs, outputs[:, :1].repeat(4, axis=1), rtol=1e-5)


def test_dense_numbers_without_an_mlp_are_refused():
    with pytest.raises(ValueError, match="there is none; give it `hidden_units:`"):
        AutoInt(WITHOUT_HISTORIES, AutoIntConfig(numeric_input="dense"))
