# SPDX-License-Identifier: Apache-2.0
"""The loop of gated recurrent units, and its gradients without a second pass over the gates."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def gated_recurrence(
    inputs: tf.Tensor,
    weights: tf.Tensor,
    initial: tf.Tensor,
    kernel: tf.Tensor,
    has_update: bool = True,
) -> tf.Tensor:
    """Return the states h_1 … h_T of a gated unit, float (batch, items, units).

    g_t = w_t u_t, or w_t without an update gate;    h_t = h_{t-1} + g_t ⊙ (h̃_t - h_{t-1}),
    u_t = σ(x^u_t + h_{t-1} U^u),    r_t = σ(x^r_t + h_{t-1} U^r),
    h̃_t = tanh(x^h_t + r_t ⊙ h_{t-1} U^h)

    The way back finds the gates of all steps at once from the states that the way there left, so
    that a step of it is one product with Uᵀ. Both loops compile under XLA, and what is compiled
    does not grow with the number of steps.

    Args:
        inputs: [x^u, x^r, x^h], or [x^r, x^h], float (batch, items, gates · units).
        weights: w, float (batch, items).
        initial: h_0, float (batch, units).
        kernel: [U^u, U^r, U^h], or [U^r, U^h], float (units, gates · units).
        has_update: Whether there is an update gate.
    """

    @tf.custom_gradient
    def compute(
        x: tf.Tensor, w: tf.Tensor, start: tf.Tensor, u: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
        states = _forwards(x, w, start, u, has_update)

        def backwards(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
            before = tf.concat([start[tf.newaxis], states[:-1]], axis=0)
            return _backwards(x, w, before, u, upstream, has_update)

        return states, backwards

    # steps on the first axis: one of them is then one piece of memory
    x = tf.transpose(inputs, (1, 0, 2))
    w = tf.transpose(weights)[..., tf.newaxis]
    return tf.transpose(compute(x, w, initial, kernel), (1, 0, 2))


def _gates(
    x: tf.Tensor, product: tf.Tensor, has_update: bool
) -> tuple[tf.Tensor | None, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return u, r, h̃ and h U^h from x and h U, all (…, units)."""
    count = 2 + has_update
    own, recurrent = tf.split(x, count, axis=-1), tf.split(product, count, axis=-1)
    update = tf.sigmoid(own[0] + recurrent[0]) if has_update else None
    reset = tf.sigmoid(own[-2] + recurrent[-2])
    return update, reset, tf.tanh(own[-1] + reset * recurrent[-1]), recurrent[-1]


def _forwards(
    x: tf.Tensor, w: tf.Tensor, start: tf.Tensor, kernel: tf.Tensor, has_update: bool
) -> tf.Tensor:
    """Return the states, (steps, batch, units)."""

    def step(t: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        update, _, candidate, _ = _gates(x[t], tf.matmul(state, kernel), has_update)
        share = w[t] if update is None else w[t] * update
        return state + share * (candidate - state)

    return _loop(x, start, step)


def _backwards(
    x: tf.Tensor,
    w: tf.Tensor,
    before: tf.Tensor,
    kernel: tf.Tensor,
    upstream: tf.Tensor,
    has_update: bool,
) -> Sequence[tf.Tensor]:
    """Return the gradients of x, w, h_0 and U, given h_{t-1} and the gradients of all states."""
    update, reset, candidate, product = _gates(x, tf.tensordot(before, kernel, 1), has_update)
    change = candidate - before
    share = w if update is None else w * update
    # what the gradient of a state is multiplied by on its way to each gate's sum
    to_candidate = share * (1.0 - tf.square(candidate))
    to_reset = to_candidate * product * reset * (1.0 - reset)
    to_sums = [to_reset, to_candidate * reset]
    if update is not None:
        to_sums.insert(0, change * share * (1.0 - update))
    factors, stays = tf.concat(to_sums, axis=-1), 1.0 - share
    last = tf.shape(x)[0] - 1

    def step(t: tf.Tensor, slope: tf.Tensor) -> tf.Tensor:
        """From the gradient of h_s to all that of h_{s-1}, s = T - 1 - t."""
        s = last - t
        sums = tf.tile(slope, [1, 2 + has_update]) * factors[s]
        earlier = tf.matmul(sums, kernel, transpose_b=True) + stays[s] * slope
        return earlier + upstream_before[s]

    # h_0 has no gradient of its own
    upstream_before = tf.concat([tf.zeros_like(upstream[:1]), upstream[:-1]], axis=0)
    slopes = tf.concat([upstream[-1:], _loop(x, upstream[-1], step)], axis=0)
    of_start, slopes = slopes[-1], tf.reverse(slopes[:-1], [0])  # of h_0; of h_1 … h_T
    sums = tf.tile(slopes, [1, 1, 2 + has_update]) * factors
    of_kernel = tf.tensordot(before, sums, [[0, 1], [0, 1]])
    of_share = slopes * change
    of_w = tf.reduce_sum(of_share if update is None else of_share * update, -1, keepdims=True)
    # x^h enters h̃ as it is, h U^h by way of the reset gate
    units = slopes.shape[-1]
    of_x = tf.concat([sums[..., :-units], slopes * to_candidate], axis=-1)
    return of_x, of_w, of_start, of_kernel


def _loop(
    like: tf.Tensor, start: tf.Tensor, step: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Return what each step makes of the value before it, (steps, …), steps those of `like`."""
    static = like.shape[0]
    count = tf.shape(like)[0] if static is None else static
    found = tf.TensorArray(start.dtype, count, element_shape=start.shape)

    def body(t: tf.Tensor, value: tf.Tensor, found: Any) -> tuple[tf.Tensor, tf.Tensor, Any]:
        value = step(t, value)
        return t + 1, tf.ensure_shape(value, start.shape), found.write(t, value)

    *_, found = tf.while_loop(
        lambda t, *_: t < count,
        body,
        (tf.constant(0), start, found),
        maximum_iterations=static,
    )
    return found.stack()
