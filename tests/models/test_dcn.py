# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.dcn import DCN, CrossLayer, DCNConfig, LowRankCrossLayer
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import (
    WITHOUT_HISTORIES,
    dense_layer,
    make,
    random_batch,
    randomise,
    reference_layers,
)
from tests.reference.dcn import cross_network
from tests.reference.mlp import mlp


def layer_weights(layer):
    """W as it acts on a column vector, and b."""
    match layer:
        case CrossLayer():
            return layer.dense.kernel.numpy().T, layer.dense.bias.numpy()
        case LowRankCrossLayer():
            return (layer.down.kernel.numpy() @ layer.up.kernel.numpy()).T, layer.up.bias.numpy()


@pytest.mark.parametrize("structure", ["stacked", "parallel"])
@pytest.mark.parametrize(("cross_layers", "rank"), [(0, None), (3, None), (2, 2)])
def test_dcn_equals_the_reference(cross_layers, rank, structure, float64):
    model = make(
        "dcn",
        embedding_dim=2,
        hidden_units=(5,),
        cross_layers=cross_layers,
        rank=rank,
        structure=structure,
    )
    randomise(model)
    batch = random_batch(4)

    def reference(index):
        row = parts(model, batch, index)
        inputs = np.concatenate([row.vectors.reshape(-1), row.numbers])
        crossed = cross_network(inputs, [layer_weights(layer) for layer in model.cross])
        hidden = reference_layers(model.mlp)
        if structure == "stacked":
            outputs = mlp(crossed, hidden)
        else:
            outputs = np.concatenate([crossed, mlp(inputs, hidden)])
        return mlp(outputs, [dense_layer(model.output_layer)]).item()

    assert_equals_reference(model, batch, reference)


def test_one_cross_layer_by_hand():
    layer = CrossLayer()
    first, now = tf.constant([[2.0, 3.0]]), tf.constant([[1.0, -1.0]])
    layer(first, now)
    layer.dense.kernel.assign([[1.0, 0.0], [5.0, 2.0]])  # column vectors: W = [[1, 5], [0, 2]]
    layer.dense.bias.assign([0.5, 0.25])
    # [2·(1 - 5 + 0.5) + 1, 3·(-2 + 0.25) - 1]
    np.testing.assert_allclose(layer(first, now), [[-6.0, -6.25]])


def test_without_cross_layers_both_structures_are_what_is_left():
    batch = random_batch(5)
    for structure, width in (("stacked", 4), ("parallel", 4 + 5 * 2 + 2)):
        config = DCNConfig(embedding_dim=2, hidden_units=(4,), cross_layers=0, structure=structure)
        model = DCN(WITHOUT_HISTORIES, config)
        model.build_from(batch)
        assert model.output_layer.kernel.shape == (width, 1)


def test_a_low_rank_has_fewer_weights():
    full, low = make("dcn").cross[0], make("dcn", rank=3).cross[0]
    width = 5 * 16 + 2
    assert full.count_params() == width * width + width
    assert low.count_params() == 2 * width * 3 + width
