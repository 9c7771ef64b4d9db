# SPDX-License-Identifier: Apache-2.0
"""The loop of gated recurrent units, which goes on for no row much longer than it has to."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from models.layers.chunks import Chunks

MOST_CHUNKS, LEAST_ROWS = 16, 128
"""A batch is cut into so many chunks at most, each of so many rows at least."""


class GateWeights(NamedTuple):
    """Weights of the gates u, r and h̃, side by side, or of r and h̃ where there is no u.

    Attributes:
        kernel: W, float (dim, gates · units).
        recurrent: U, float (units, gates · units).
        bias: b, float (gates · units,).
    """

    kernel: tf.Tensor
    recurrent: tf.Tensor
    bias: tf.Tensor


def gated_recurrence(
    inputs: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor, gates: GateWeights
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the states h_1 … h_T of a gated unit, and the last one.

    g_t = w_t u_t, or w_t without an update gate;    h_t = h_{t-1} + g_t ⊙ (h̃_t - h_{t-1}),
    u_t = σ(x_t W^u + h_{t-1} U^u + b^u),    r_t = σ(x_t W^r + h_{t-1} U^r + b^r),
    h̃_t = tanh(x_t W^h + r_t ⊙ h_{t-1} U^h + b^h)

    The loop leaves out what is padding for a whole chunk of rows of about one length; see `Steps`.
    The way back finds the gates again, so that nothing as wide as all gates is kept. Both loops
    compile under XLA, and what is compiled does not grow with the number of steps.

    Args:
        inputs: x, float (batch, items, dim).
        weights: w, float (batch, items). A row ends at its last weight other than 0; the
            gradients of those beyond mean nothing.
        initial: h_0, float (batch, units).
        gates: W, U and b.

    Returns:
        The states, float (batch, items, units), which mean nothing beyond a row's end, and the
        state at its end, float (batch, units).
    """
    steps = Steps(weights)

    @tf.custom_gradient
    def compute(
        x: tf.Tensor, w: tf.Tensor, start: tf.Tensor, *gate_weights: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., Sequence[tf.Tensor]]]:
        given = _Given(
            steps.by_step(x),
            steps.by_step(w[..., tf.newaxis]),
            steps.by_chunk(start),
            GateWeights(*gate_weights),
        )
        states = _forwards(given, steps)
        last = steps.last(states, given.start)

        def backwards(of_states: tf.Tensor, of_last: tf.Tensor) -> Sequence[tf.Tensor]:
            of_x, of_w, of_start, *of_gates = _backwards(
                given, steps, states, steps.by_step(of_states), steps.by_chunk(of_last)
            )
            of_w = tf.squeeze(steps.by_row(of_w), axis=-1)
            return steps.by_row(of_x), of_w, steps.joined(of_start), *of_gates

        return (steps.by_row(states), steps.joined(last)), backwards

    return compute(inputs, weights, initial, *gates)


class Steps(Chunks):
    """The steps of all chunks, one after the other, each as far as its longest history.

    Args:
        weights: Float (batch, items), 0 at padding.

    Attributes:
        total: Number of steps, int32.
    """

    def __init__(self, weights: tf.Tensor) -> None:
        super().__init__(weights, MOST_CHUNKS, LEAST_ROWS)
        if weights.shape[0] is None:  # states can only be put together if every step left one
            self.ends = tf.fill([1], self.items)
        self.total = tf.reduce_sum(self.ends)
        # the places of steps in their order, then those that no step goes to
        beyond = tf.range(self.items) >= self.ends[:, tf.newaxis]
        self._places = tf.argsort(tf.cast(tf.reshape(beyond, [-1]), tf.int32), stable=True)

    def at(self, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return where a step is: its place in `by_step`, its chunk and its item."""
        place = tf.gather(self._places, number)
        return place, place // self.items, place % self.items

    def by_step(self, array: tf.Tensor) -> tf.Tensor:
        """Return (batch, items, width) as (chunks · items, rows, width), each step in one piece."""
        array = tf.transpose(self.by_chunk(array), (0, 2, 1, 3))
        if self.count == 1:
            return array[0]
        return tf.reshape(array, [self.count * self.items, *array.shape[2:]])

    def by_row(self, array: tf.Tensor) -> tf.Tensor:
        """Reverse `by_step`."""
        if self.count == 1:
            return tf.transpose(array, (1, 0, 2))
        array = tf.reshape(array, [self.count, self.items, *array.shape[1:]])
        return self.joined(tf.transpose(array, (0, 2, 1, 3)))

    def last(self, states: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
        """Return the states that chunks end with, (chunks, rows, units); of empty ones the start.

        Args:
            states: By step.
            start: By chunk.
        """
        chunk = tf.range(self.count)
        empty = self.count * self.items + chunk
        places = tf.where(self.ends > 0, chunk * self.items + self.ends - 1, empty)
        return tf.gather(tf.concat([states, start], axis=0), places)


class _Given(NamedTuple):
    """Arguments of the recurrence: inputs and weights by step, h_0 by chunk."""

    inputs: tf.Tensor
    weights: tf.Tensor
    start: tf.Tensor
    gates: GateWeights


class _Gates(NamedTuple):
    """What the gates of one step are, float (rows, units): u or None, r, h̃, and h U^h."""

    update: tf.Tensor | None
    reset: tf.Tensor
    candidate: tf.Tensor
    recurrent: tf.Tensor


def _gates(x: tf.Tensor, before: tf.Tensor, weights: GateWeights) -> _Gates:
    """Return the gates of one step from its inputs and the state before it."""
    count = weights.recurrent.shape[1] // weights.recurrent.shape[0]
    own = tf.split(tf.matmul(x, weights.kernel) + weights.bias, count, axis=1)
    recurrent = tf.split(tf.matmul(before, weights.recurrent), count, axis=1)
    update = tf.sigmoid(own[0] + recurrent[0]) if count == 3 else None
    reset = tf.sigmoid(own[-2] + recurrent[-2])
    return _Gates(update, reset, tf.tanh(own[-1] + reset * recurrent[-1]), recurrent[-1])


def _share(gates: _Gates, w: tf.Tensor) -> tf.Tensor:
    """Return g, the share of the state that a step replaces."""
    return w if gates.update is None else w * gates.update


class _Slopes(NamedTuple):
    """Gradients of one step's weight, inputs' part x W + b, product h U and, in part, of h."""

    weight: tf.Tensor
    inputs: tf.Tensor
    products: tf.Tensor
    kept: tf.Tensor


def _slopes(gates: _Gates, before: tf.Tensor, w: tf.Tensor, slope: tf.Tensor) -> _Slopes:
    """Return the gradients of one step.

    Args:
        gates: Those of the step.
        before: h_{t-1}.
        w: w_t.
        slope: Gradient of h_t.
    """
    share, of_share = _share(gates, w), slope * (gates.candidate - before)
    of_candidate = slope * share * (1.0 - tf.square(gates.candidate))
    of_reset = of_candidate * gates.recurrent * gates.reset * (1.0 - gates.reset)
    of_gates, of_weight = [of_reset], of_share
    if gates.update is not None:
        of_weight = of_share * gates.update
        of_gates.insert(0, w * of_weight * (1.0 - gates.update))
    return _Slopes(
        tf.reduce_sum(of_weight, axis=1, keepdims=True),
        tf.concat([*of_gates, of_candidate], axis=1),
        tf.concat([*of_gates, of_candidate * gates.reset], axis=1),
        (1.0 - share) * slope,
    )


def _array(counted: tf.Tensor, like: tf.Tensor) -> Any:
    """Return a TensorArray as long as one tensor, with elements like those of another."""
    count = tf.shape(counted)[0] if counted.shape[0] is None else counted.shape[0]
    return tf.TensorArray(like.dtype, count, element_shape=like.shape[1:])


# Steps are gathered, not sliced: XLA takes the places of slices for constants, and would compile
# anew for every batch.


def _forwards(given: _Given, steps: Steps) -> tf.Tensor:
    """Return the states by step; 0 where no step goes."""
    x, w, start, weights = given
    shape = start.shape[1:]

    def body(number: tf.Tensor, state: tf.Tensor, states: Any) -> tuple[tf.Tensor, tf.Tensor, Any]:
        place, chunk, item = steps.at(number)
        before = tf.where(item == 0, tf.gather(start, chunk), state)
        gates = _gates(tf.gather(x, place), before, weights)
        state = before + _share(gates, tf.gather(w, place)) * (gates.candidate - before)
        return number + 1, tf.ensure_shape(state, shape), states.write(place, state)

    *_, states = tf.while_loop(
        lambda number, *_: number < steps.total,
        body,
        (0, tf.zeros_like(start[0]), _array(x, start)),
    )
    return states.stack()


def _backwards(
    given: _Given, steps: Steps, states: tf.Tensor, of_states: tf.Tensor, of_last: tf.Tensor
) -> Sequence[tf.Tensor]:
    """Return the gradients of inputs, weights, h_0, W, U and b, given those of states and last."""
    x, w, start, weights = given
    wide = start.dtype if start.dtype.size >= 4 else tf.float32  # for sums over all steps

    def body(number: tf.Tensor, slope: tf.Tensor, *found: Any) -> tuple[Any, ...]:
        of_x, of_w, of_start, of_kernel, of_recurrent, of_bias = found
        place, chunk, item = steps.at(number)
        is_last = item == tf.gather(steps.ends, chunk) - 1
        slope = tf.where(is_last, tf.gather(of_last, chunk), slope) + tf.gather(of_states, place)
        earlier = tf.gather(states, tf.maximum(place - 1, 0))
        before = tf.where(item == 0, tf.gather(start, chunk), earlier)
        inputs = tf.gather(x, place)
        slopes = _slopes(_gates(inputs, before, weights), before, tf.gather(w, place), slope)
        of_inputs = tf.matmul(slopes.inputs, weights.kernel, transpose_b=True)
        slope = slopes.kept + tf.matmul(slopes.products, weights.recurrent, transpose_b=True)
        return (
            number - 1,
            tf.ensure_shape(slope, start.shape[1:]),
            of_x.write(place, of_inputs),
            of_w.write(place, slopes.weight),
            of_start.write(chunk, slope),  # that of the first item, the last to be written, stays
            of_kernel + tf.cast(tf.matmul(inputs, slopes.inputs, transpose_a=True), wide),
            of_recurrent + tf.cast(tf.matmul(before, slopes.products, transpose_a=True), wide),
            of_bias + tf.cast(tf.reduce_sum(slopes.inputs, axis=0), wide),
        )

    arrays = [_array(array, array) for array in (x, w, start)]
    sums = [tf.zeros(tf.shape(weight), wide) for weight in weights]
    _, _, *found = tf.while_loop(
        lambda number, *_: number >= 0,
        body,
        (steps.total - 1, tf.zeros_like(start[0]), *arrays, *sums),
    )
    of_x, of_w, of_start = (array.stack() for array in found[:3])
    of_start = tf.where((steps.ends > 0)[:, tf.newaxis, tf.newaxis], of_start, of_last)
    sums = [tf.cast(total, weight.dtype) for total, weight in zip(found[3:], weights, strict=True)]
    return of_x, of_w, of_start, *sums
