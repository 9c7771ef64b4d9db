# SPDX-License-Identifier: Apache-2.0
"""Pooling and soft-max over items of which some are padding. A mask is True at real items."""

from collections.abc import Mapping
from typing import Literal

import tensorflow as tf

from features.schema import CategoricalList, length_key, weight_key

ListPooling = Literal["mean", "sum", "max"]


def length_mask(lengths: tf.Tensor, max_items: int | tf.Tensor) -> tf.Tensor:
    """Return which places hold real items, bool (batch, max_items).

    Args:
        lengths: Number of real items, int32 (batch,); they come first.
        max_items: Number of places.
    """
    return tf.range(max_items) < lengths[:, tf.newaxis]


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return soft-max weights over the real items, 0 elsewhere; a row without items is all 0.

    Args:
        scores: Of any float type, (batch, items).
        mask: bool (batch, items).
    """
    # the smallest number, not -inf: a row without items must not compute inf - inf
    weights = tf.nn.softmax(tf.where(mask, scores, scores.dtype.min), axis=-1)
    return tf.where(mask, weights, 0.0)


def masked_sum(items: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the sum of the real items, (batch, dim); 0 for a row without items.

    Args:
        items: (batch, items, dim).
        mask: bool (batch, items).
    """
    return tf.reduce_sum(tf.where(mask[..., tf.newaxis], items, 0.0), axis=1)


def masked_mean(items: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the mean of the real items, (batch, dim); 0 for a row without items.

    Args:
        items: (batch, items, dim).
        mask: bool (batch, items).
    """
    count = tf.reduce_sum(tf.cast(mask, items.dtype), axis=1, keepdims=True)
    return masked_sum(items, mask) / tf.maximum(count, 1.0)


def masked_max(items: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the largest of the real items by coordinate, (batch, dim); 0 without items.

    Args:
        items: (batch, items, dim).
        mask: bool (batch, items).
    """
    largest = tf.reduce_max(tf.where(mask[..., tf.newaxis], items, items.dtype.min), axis=1)
    return tf.where(tf.reduce_any(mask, axis=1, keepdims=True), largest, 0.0)


def weighted_sum(items: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return Σ_t w_t e_t, (batch, dim).

    Args:
        items: (batch, items, dim).
        weights: (batch, items), 0 at padding.
    """
    return tf.reduce_sum(weights[..., tf.newaxis] * items, axis=1)


def weighted_mean(items: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return Σ_t w_t e_t / Σ_t |w_t|, (batch, dim); 0 for a row whose weights are all 0.

    Args:
        items: (batch, items, dim).
        weights: (batch, items), 0 at padding.
    """
    # |w|, as weights of both signs can add up to almost 0, and a turned sign must not cancel out
    total = tf.reduce_sum(tf.abs(weights), axis=1, keepdims=True)
    return tf.math.divide_no_nan(weighted_sum(items, weights), total)


def pool_list(
    feature: CategoricalList,
    rows: tf.Tensor,
    batch: Mapping[str, tf.Tensor],
    pooling: ListPooling,
) -> tf.Tensor:
    """Return one row per list, (batch, width), of its items by their weights.

    Args:
        feature: The list; without weights of its own each item weighs 1.
        rows: Looked-up rows of its items, (batch, items, width).
        batch: Holds the lengths and weights.
        pooling: "sum" is Σ w e, "mean" is Σ w e / Σ |w|, "max" is the largest w e by coordinate.
    """
    weights = item_weights(feature, batch, tf.shape(rows)[1], rows.dtype)
    if pooling == "max":
        mask = length_mask(batch[length_key(feature.name)], tf.shape(rows)[1])
        return masked_max(rows * weights[..., tf.newaxis], mask)
    pool = weighted_mean if pooling == "mean" else weighted_sum
    return pool(rows, weights)


def item_weights(
    feature: CategoricalList,
    batch: Mapping[str, tf.Tensor],
    places: int | tf.Tensor,
    dtype: tf.DType,
) -> tf.Tensor:
    """Return what each item of a list weighs, (batch, places); 0 at padding.

    Args:
        feature: The list; without weights of its own each item weighs 1.
        batch: Holds the lengths and weights.
        places: Number of places of the list in this batch.
        dtype: Of the weights.
    """
    mask = length_mask(batch[length_key(feature.name)], places)
    if not feature.weighted:
        return tf.cast(mask, dtype)
    return tf.where(mask, tf.cast(batch[weight_key(feature.name)], dtype), 0.0)
