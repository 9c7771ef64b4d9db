# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.finalmlp import BilinearFusion, FinalMLP, FinalMLPConfig
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import (
    WITHOUT_HISTORIES,
    make,
    random_batch,
    randomise,
    reference_layers,
)
from tests.reference.finalmlp import bilinear_fusion, gated
from tests.reference.mlp import mlp

SMALL = {
    "embedding_dim": 2,
    "hidden_units": (5, 4),
    "second_hidden_units": (6,),
    "num_heads": 2,
    "gate_hidden_units": (3,),
}


def reference_of(model, batch):
    def reference(index):
        row = parts(model, batch, index)
        inputs = np.concatenate([row.vectors.reshape(-1), row.numbers])
        by_name = dict(zip(model.fields.names, [*row.vectors, *row.numbers[:, None]], strict=True))
        outputs = []
        for k, stream in enumerate(model.streams):
            seen = inputs
            if model.gates:
                names = model.gate_features[k]
                context = (
                    np.concatenate([by_name[name] for name in names])
                    if names
                    else model.gates[k].context.numpy()[0]
                )
                seen = gated(inputs, context, reference_layers(model.gates[k].mlp))
            outputs.append(mlp(seen, reference_layers(stream)))
        linear = model.fusion.linear
        weights = np.split(linear.kernel.numpy()[:, 0], [len(outputs[0])])
        matrices = model.fusion.kernel.numpy()
        return bilinear_fusion(*outputs, linear.bias.numpy().item(), weights, matrices)

    return reference


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gate_hidden_units": None},
        {"gate_features": ("item", "price"), "second_gate_features": ("user",)},
    ],
)
def test_finalmlp_equals_the_reference(options, float64):
    model = make("finalmlp", **(SMALL | options))
    randomise(model)
    batch = random_batch(3)
    assert_equals_reference(model, batch, reference_of(model, batch))


def test_heads_by_hand():
    fusion = BilinearFusion(2)
    first, second = tf.constant([[1.0, 2.0]]), tf.constant([[3.0, -1.0]])
    fusion(first, second)
    fusion.linear.kernel.assign([[0.1], [0.2], [0.3], [0.4]])
    fusion.linear.bias.assign([0.5])
    fusion.kernel.assign([[[2.0]], [[10.0]]])
    # 0.5 + 0.1 + 0.4 + 0.9 - 0.4 + 1·2·3 + 2·10·(-1)
    np.testing.assert_allclose(fusion(first, second), [[1.5 + 6.0 - 20.0]], rtol=1e-6)


def test_what_does_not_fit_is_said_in_plain_words():
    config = FinalMLPConfig(hidden_units=(7,), gate_features=("colour", "price"))
    assert FinalMLP.problems(WITHOUT_HISTORIES, config) == [
        "finalmlp: a gate looks at `colour`, which is not among the model's features: "
        "user, item, category, tags, topics, price, age",
        "finalmlp: a last hidden layer of 7 cannot be cut into 10 heads of one width; "
        "change `num_heads:` or the layer",
    ]


def test_two_streams_of_one_width_are_named_once():
    config = FinalMLPConfig(hidden_units=(9, 7), second_hidden_units=(7,))
    assert len(FinalMLP.problems(WITHOUT_HISTORIES, config)) == 1
