# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.xdeepfm import CompressedInteraction
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import make, random_batch, randomise, reference_layers
from tests.reference.mlp import mlp
from tests.reference.xdeepfm import compressed_interaction


@pytest.mark.parametrize("numeric_input", ["fields", "dense"])
def test_xdeepfm_equals_the_reference(numeric_input, float64):
    model = make(
        "xdeepfm",
        embedding_dim=3,
        cin_units=(4, 2),
        hidden_units=(5,),
        numeric_input=numeric_input,
    )
    randomise(model)
    batch = random_batch(3)

    def reference(index):
        row = parts(model, batch, index)
        kernels = [kernel.numpy() for kernel in model.interaction.kernels]
        explicit = compressed_interaction(row.vectors, kernels) @ model.output_layer.kernel.numpy()
        inputs = np.concatenate([row.vectors.reshape(-1), row.numbers])
        return row.linear + explicit.item() + mlp(inputs, reference_layers(model.mlp)).item()

    assert_equals_reference(model, batch, reference)


def test_one_map_of_ones_is_the_square_of_the_sum():
    fields = tf.constant([[[1.0, 2.0], [3.0, -1.0]]])
    layer = CompressedInteraction((1,))
    layer(fields)
    layer.kernels[0].assign(np.ones((2, 2, 1)))
    np.testing.assert_allclose(layer(fields), [[4.0**2 + 1.0**2]])


def test_rows_in_parts_give_the_same_sums(float64):
    fields = np.random.default_rng(0).normal(size=(16, 3, 2))
    layer = CompressedInteraction((3, 2))
    layer(fields)
    kernels = [kernel.numpy() for kernel in layer.kernels]
    expected = [compressed_interaction(row, kernels) for row in fields]
    np.testing.assert_allclose(layer(fields), expected, rtol=1e-9)
