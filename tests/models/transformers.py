# SPDX-License-Identifier: Apache-2.0
"""The weights of transformer layers as their reference takes them."""

import numpy as np

from models.layers.transformer import EncoderBlock
from tests.models.examples import LEAKY_SLOPE
from tests.reference import transformer as reference


def attention_of(layer):
    kernels = (layer.query_kernel, layer.key_kernel, layer.value_kernel)
    heads = zip(*(np.split(k.numpy(), layer.num_heads, axis=1) for k in kernels), strict=True)
    return reference.Attention(list(heads), layer.output_kernel.numpy())


def norm_of(layer):
    return layer and reference.Norm(layer.gamma.numpy(), layer.beta.numpy())


def blocks_of(stack):
    """The blocks of an encoder or a decoder."""
    blocks = []
    for block in stack.blocks:
        encodes = isinstance(block, EncoderBlock)
        attentions = [block.attention] if encodes else [block.self_attention, block.cross_attention]
        feed = block.feed_forward
        layers = (feed.inner.kernel, feed.inner.bias, feed.outer.kernel, feed.outer.bias)
        slope = LEAKY_SLOPE if block.options.activation == "leaky_relu" else 0.0
        blocks.append(
            reference.Block(
                [attention_of(attention) for attention in attentions],
                reference.Feed(*(weight.numpy() for weight in layers), slope),
                [norm_of(residual.norm) for residual in block.residuals],
                block.options.order,
            )
        )
    return blocks
