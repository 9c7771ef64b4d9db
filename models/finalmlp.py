# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import SideBySideConfig, VectorFieldModel, problems_of_fields, squeeze_logits
from models.layers.mlp import MLP, MLPOptions, Units
from models.limits import Several


class FinalMLPConfig(SideBySideConfig):
    """Options of `FinalMLP`."""

    hidden_units: Units = Field(
        (400, 400, 400), min_length=1, description="Width of each hidden layer of the first stream."
    )
    second_hidden_units: Units = Field(
        (400, 400, 400), min_length=1, description="The same of the second stream."
    )
    num_heads: Several = Field(10, description="Heads of the bilinear fusion.")
    gate_hidden_units: Units | None = Field(
        (64,), description="Width of each hidden layer of the gates; none: streams have no gates."
    )
    gate_features: tuple[str, ...] = Field(
        (), description="Features that the first stream's gate looks at; none: a vector it learns."
    )
    second_gate_features: tuple[str, ...] = Field((), description="The same of the second stream.")


class FinalMLP(VectorFieldModel):
    """FinalMLP: two MLPs that see differently weighted inputs, and a bilinear product of both.

    o_k = MLP_k(2 σ(gate_k(c_k)) ⊙ e),    e = [x_1 v_1; …; x_F v_F; numbers]
    ŷ = b + w_1ᵀ o_1 + w_2ᵀ o_2 + Σ_h o_{1,h}ᵀ W_h o_{2,h}

    where c_k are the vectors of some features, or a learnt vector, and heads h cut o_k into pieces.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Mao et al., FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction, AAAI 2023,
        "Stream-Specific Feature Selection" and "Stream-Level Interaction Aggregation".
    Differs from the paper: a gate weighs each coordinate of e.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "S1, S2": "weights of each stream's MLP, from X inputs to its last hidden layer",
        "s1, s2": "width of that layer",
        "H": "num_heads",
        "G1, G2": "weights of each gate, an MLP over gate_hidden_units to X outputs, from its "
        "features or from k learnt numbers, which count too",
    }

    def __init__(
        self, schema: FeatureSchema, config: FinalMLPConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.gate_features = (config.gate_features, config.second_gate_features)
        self.gates = []
        if config.gate_hidden_units is not None:
            self.gates = [
                FeatureGate(config.gate_hidden_units, None if names else config.embedding_dim)
                for names in self.gate_features
            ]
        second = config.model_copy(update={"hidden_units": config.second_hidden_units})
        self.streams = [MLP(config), MLP(second)]
        self.fusion = BilinearFusion(config.num_heads)

    @staticmethod
    def parameter_formula(config: FinalMLPConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        gates = "" if config.gate_hidden_units is None else " + G1 + G2"
        return f"(R + N) k + S1 + S2 + s1 s2 / H + s1 + s2 + 1{gates}"

    @staticmethod
    def problems(schema: FeatureSchema, config: FinalMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        looked_at = (*config.gate_features, *config.second_gate_features)
        problems = problems_of_fields("finalmlp", schema, config.numeric_input != "none")
        names = [feature.name for feature in schema.features]
        if config.numeric_input == "none":
            names = [name for name in names if name not in {n.name for n in schema.numeric}]
        problems += [
            f"finalmlp: a gate looks at `{name}`, which is not among the model's features: "
            + ", ".join(names)
            for name in looked_at
            if name not in names
        ]
        if config.gate_hidden_units is None and looked_at:
            problems.append(
                "finalmlp: without `gate_hidden_units:` there are no gates that could look at "
                "`gate_features:`; take one of them out"
            )
        problems += [
            f"finalmlp: a last hidden layer of {width} cannot be cut into {config.num_heads} "
            "heads of one width; change `num_heads:` or the layer"
            for width in dict.fromkeys((config.hidden_units[-1], config.second_hidden_units[-1]))
            if width % config.num_heads
        ]
        return problems

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        vectors, numbers = self.fields(embedded, batch)
        by_name = dict(zip(self.fields.names, [*vectors, *numbers], strict=True))
        inputs = tf.concat(list(by_name.values()), axis=1)
        outputs = []
        for k, stream in enumerate(self.streams):
            gated = inputs
            if self.gates:
                context = [by_name[name] for name in self.gate_features[k]]
                gated = self.gates[k](inputs, tf.concat(context, axis=1) if context else None)
            outputs.append(stream(gated, training=training))
        return squeeze_logits(self.fusion(*outputs), inputs.dtype)


class FeatureGate(keras.layers.Layer):
    """Weighs inputs by a context: 2 σ(MLP(c)) ⊙ e.

    Args:
        hidden_units: Width of each hidden layer of the MLP.
        context_dim: Length of a learnt context, or None where the context is given.

    Call arguments:
        inputs: e, float (batch, width).
        context: c, float (batch, any), or None with a learnt context.

    Returns:
        Float (batch, width), each number between 0 and twice its input.

    References:
        Mao et al., FinalMLP, AAAI 2023, "Stream-Specific Feature Selection".
    Differs from the paper: nothing.
    """

    def __init__(self, hidden_units: Sequence[int], context_dim: int | None) -> None:
        super().__init__()
        self.hidden_units = tuple(hidden_units)
        self.context_dim = context_dim

    def build(self, inputs_shape: Sequence[int], context_shape: Sequence[int] = ()) -> None:
        """Create the MLP and the learnt context."""
        self.mlp = MLP(MLPOptions(hidden_units=self.hidden_units), inputs_shape[-1])
        if self.context_dim:
            self.context = self.add_weight(
                name="context", shape=(1, self.context_dim), initializer="random_normal"
            )
        self.mlp.build((1, self.context_dim) if self.context_dim else context_shape)

    def call(self, inputs: tf.Tensor, context: tf.Tensor | None = None) -> tf.Tensor:
        """Weigh the inputs; see the class."""
        context = tf.convert_to_tensor(self.context) if context is None else context
        return 2.0 * tf.sigmoid(self.mlp(context)) * inputs


class BilinearFusion(keras.layers.Layer):
    """b + w_1ᵀ o_1 + w_2ᵀ o_2 + Σ_h o_{1,h}ᵀ W_h o_{2,h}.

    Args:
        num_heads: Pieces that both vectors are cut into.

    Call arguments:
        first: o_1, float (batch, first width), a multiple of `num_heads`.
        second: o_2, float (batch, second width), a multiple of `num_heads`.

    Returns:
        Float (batch, 1).

    References:
        Mao et al., FinalMLP, AAAI 2023, "Stream-Level Interaction Aggregation".
    Differs from the paper: nothing.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.linear = keras.layers.Dense(1)

    def build(self, first_shape: Sequence[int], second_shape: Sequence[int]) -> None:
        """Create b, w and W of each head, side by side."""
        first, second = first_shape[-1], second_shape[-1]
        self.linear.build((None, first + second))
        shape = (self.num_heads, first // self.num_heads, second // self.num_heads)
        self.kernel = self.add_weight(
            name="kernel",
            shape=shape,
            # Glorot's for one output of all products, not for W_h as a layer of its own: the sum
            # over heads would start with logits of several units
            initializer=keras.initializers.RandomNormal(
                stddev=math.sqrt(2 / (math.prod(shape) + 1))
            ),
        )

    def call(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Fuse the streams; see the class."""
        heads = zip(
            tf.split(first, self.num_heads, axis=1),
            tf.unstack(tf.convert_to_tensor(self.kernel)),
            tf.split(second, self.num_heads, axis=1),
            strict=True,
        )
        mixed = tf.concat([ours @ kernel * theirs for ours, kernel, theirs in heads], axis=1)
        bilinear = tf.reduce_sum(mixed, axis=1, keepdims=True)
        return self.linear(tf.concat([first, second], axis=1)) + bilinear
