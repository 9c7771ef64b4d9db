# SPDX-License-Identifier: Apache-2.0
"""The transforms of `features.encode` as a TensorFlow graph: the front half of a SavedModel.

Missing values: empty text, the smallest int64, NaN.
"""

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from features.gaps import GAP_BITS
from features.graph_lookup import build_lookup
from features.graph_moments import part_of, seconds_of_count, seconds_of_text
from features.inputs import InputType, RawInput, input_names
from features.numeric import BucketFit, NumericFit
from features.raw import FLOAT32_MAX, FLOAT32_MIN, MISSING_INTEGER, NullRule
from features.schema import (
    FIRST_UNKNOWN,
    MISSING,
    PADDING,
    FeatureSchema,
    History,
    length_key,
    weight_key,
)
from features.space import FeatureSpace
from features.specs import (
    BucketedSpec,
    CategoricalSpec,
    DatetimeSpec,
    NumericSpec,
    channel_name,
    missing_flag_name,
)

Tensors = Mapping[str, tf.Tensor]
_DTYPES: Mapping[InputType, tf.DType] = {
    "text": tf.string, "integer": tf.int64, "number": tf.float32, "texts": tf.string,
}  # fmt: skip


class FeatureGraph(tf.Module):
    """Raw inputs to the batch dictionary that a model takes.

    Args:
        space: The fitted feature space.
        schema: Features that the model uses.
        rule: Null tokens and trimming, as when the data were read.
        assets: Folder in which vocabulary files are written.
    """

    def __init__(
        self, space: FeatureSpace, schema: FeatureSchema, rule: NullRule, assets: Path
    ) -> None:
        super().__init__()
        self.space = space
        self.schema = schema
        self.rule = rule
        names = input_names(space.specs)
        sources = {f.name: names[f.name] for f in schema.categorical}
        sources |= {f.name: names[f.name] for f in schema.lists}
        sources |= {f.name: names[self._numeric_owner(f.name)] for f in schema.numeric}
        self.sources = sources
        self.raw = {raw.name: raw for raw in space.inputs}
        self.lookups = {
            name: build_lookup(space, name, assets / f"vocabulary_{number}_{name}.txt")
            for number, name in enumerate(table.name for table in schema.tables)
            if isinstance(space.specs.get(name), CategoricalSpec)
        }

    def _numeric_owner(self, name: str) -> str:
        """Return the feature whose number or missing flag `name` is."""
        if name in self.space.specs:
            return name
        return next(feature for feature in self.space.specs if missing_flag_name(feature) == name)

    @property
    def inputs(self) -> tuple[RawInput, ...]:
        """Raw inputs that the model's features read, histories' channels left out."""
        used = set(self.sources.values())
        return tuple(raw for raw in self.space.inputs if raw.name in used)

    def signature(self) -> dict[str, tf.TensorSpec]:
        """Return the spec of every input tensor by name; the batch dimension is free."""
        specs: dict[str, tf.TensorSpec] = {}

        def add(name: str, dtype: tf.DType, rank: int) -> None:
            specs[name] = tf.TensorSpec([None] * rank, dtype, name=name)

        for raw in self.inputs:
            add(raw.name, _DTYPES[raw.type], 2 if raw.type == "texts" else 1)
            if raw.type == "texts":
                add(length_key(raw.name), tf.int32, 1)
            if raw.weight_separator is not None:
                add(weight_key(raw.name), tf.float32, 2)
        for history in self.schema.histories:
            for channel, kind in self.channels(history).items():
                add(channel, _DTYPES[kind], 2)
            add(length_key(history.name), tf.int32, 1)
        return specs

    def lengths(self) -> dict[str, str]:
        """Return, by length input, a list input whose length it is."""
        lists = {length_key(raw.name): raw.name for raw in self.inputs if raw.type == "texts"}
        histories = {length_key(h.name): h.channels[0].name for h in self.schema.histories}
        return lists | histories

    def channels(self, history: History) -> dict[str, InputType]:
        """Return the type of each channel's events: of the raw input that it repeats."""
        names = input_names(self.space.specs)
        return {
            channel.name: "integer"
            if channel.time_gap
            else self.raw[names[_feature_of(history, channel.name)]].type
            for channel in history.channels
        }

    def __call__(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        """Encode raw inputs, as `signature` describes them, to a batch."""
        batch: dict[str, tf.Tensor] = {}
        for feature in self.schema.categorical:
            batch[feature.name] = self.ids(feature.name, inputs[self.sources[feature.name]])
        for number in self.schema.numeric:
            batch[number.name] = self._number(number.name, inputs)
        for bag in self.schema.lists:
            self._list(bag.name, bag.max_items, inputs, batch)
        for history in self.schema.histories:
            self._history(history, inputs, batch)
        return batch

    def ids(self, feature: str, values: tf.Tensor) -> tf.Tensor:
        """Return the ids of raw values of one feature, int32 of the same shape."""
        spec = self.space.specs[feature]
        match spec:
            case BucketedSpec():
                return encode_buckets(self._known(values), spec, self.space.buckets[feature])
            case DatetimeSpec():
                return self._part(values, spec)
            case CategoricalSpec():
                return self.lookups[spec.table or feature](self._text(values))
        raise TypeError(f"{feature} has no ids")

    def _text(self, values: tf.Tensor) -> tf.Tensor:
        """Return texts or integers as texts, empty where missing."""
        if values.dtype == tf.int64:
            values = tf.where(values == MISSING_INTEGER, "", tf.strings.as_string(values))
        elif self.rule.trim:
            values = tf.strings.strip(values)
        for token in self.rule.tokens:
            values = tf.where(tf.equal(values, token), "", values)
        return values

    def _known(self, values: tf.Tensor) -> tf.Tensor:
        """Return float32 numbers: NaN where missing, 0 where too small for a normal float32."""
        values = tf.where(tf.abs(values) < FLOAT32_MIN, 0.0, values)
        for token in self.rule.numbers:
            values = tf.where(tf.equal(values, token), float("nan"), values)
        return values

    def _number(self, feature: str, inputs: Tensors) -> tf.Tensor:
        owner = self._numeric_owner(feature)
        values = self._known(inputs[self.sources[feature]])
        if owner != feature:
            return tf.cast(tf.math.is_nan(values), tf.float32)
        spec = self.space.specs[owner]
        if not isinstance(spec, NumericSpec):
            raise TypeError(f"{owner} is not numeric")
        return encode_numeric(values, spec, self.space.numbers[owner])

    def _list(
        self, feature: str, max_items: int, inputs: Tensors, batch: dict[str, tf.Tensor]
    ) -> None:
        """Keep the first items that are neither empty nor a null token."""
        source = self.sources[feature]
        texts = self._text(inputs[source])
        real = tf.sequence_mask(inputs[length_key(source)], tf.shape(texts)[1])
        real &= tf.strings.strip(texts) != ""
        places = tf.argsort(tf.cast(real, tf.int32), direction="DESCENDING", stable=True)
        places = places[:, :max_items]
        length = tf.minimum(tf.reduce_sum(tf.cast(real, tf.int32), axis=1), tf.shape(places)[1])
        kept = tf.sequence_mask(length, tf.shape(places)[1])
        ids = self.ids(feature, tf.gather(texts, places, batch_dims=1))
        batch[feature] = tf.where(kept, ids, PADDING)
        batch[length_key(feature)] = length
        if weight_key(source) in inputs:
            given = tf.gather(inputs[weight_key(source)], places, batch_dims=1)
            weights = tf.where(tf.math.is_finite(given), given, 1.0)  # as one that is not written
            batch[weight_key(feature)] = tf.where(kept, weights, 0.0)

    def _history(self, history: History, inputs: Tensors, batch: dict[str, tf.Tensor]) -> None:
        """Keep the newest events: the last `max_items` of the first `length`.

        There is always a place, if an empty one, as models take it from trained batches: examples
        of whom nobody has a past come without any.
        """
        given = tf.shape(inputs[history.channels[0].name])[1]
        length = tf.clip_by_value(inputs[length_key(history.name)], 0, given)
        wide = [[0, 0], [0, tf.cast(given == 0, tf.int32)]]
        width = tf.clip_by_value(given, 1, history.max_items)
        kept = tf.minimum(length, width)
        places = (length - kept)[:, None] + tf.range(width)
        real = tf.sequence_mask(kept, width)
        places = tf.where(real, places, 0)
        for channel in history.channels:
            values = tf.gather(tf.pad(inputs[channel.name], wide), places, batch_dims=1)
            if channel.time_gap:
                ids = gap_ids(values)
            else:
                ids = self.ids(_feature_of(history, channel.name), values)
            batch[channel.name] = tf.where(real, ids, PADDING)
        batch[length_key(history.name)] = kept

    def _part(self, values: tf.Tensor, spec: DatetimeSpec) -> tf.Tensor:
        if spec.unit:
            seconds, known = seconds_of_count(values, spec.unit)
            known &= self._text(values) != ""
        else:
            seconds, known = seconds_of_text(self._text(values), spec.format)
        part = part_of(seconds, spec.part)
        return tf.cast(tf.where(known, part + FIRST_UNKNOWN, MISSING), tf.int32)


def _feature_of(history: History, channel: str) -> str:
    return channel.removeprefix(channel_name(history.name, ""))


def gap_ids(seconds: tf.Tensor) -> tf.Tensor:
    """Return the ids, int32, of int64 time gaps, as `features.gaps` does."""
    powers = tf.constant([2**bits for bits in range(GAP_BITS)], tf.int64)
    flat = tf.searchsorted(powers, tf.reshape(seconds, [-1]), side="right")
    buckets = tf.reshape(flat, tf.shape(seconds))
    return tf.where(seconds == MISSING_INTEGER, MISSING, FIRST_UNKNOWN + buckets)


def encode_numeric(values: tf.Tensor, spec: NumericSpec, fit: NumericFit) -> tf.Tensor:
    """Return the encoded float32 of raw float32 values, as `features.numeric` does."""
    x = tf.cast(tf.clip_by_value(values, -FLOAT32_MAX, FLOAT32_MAX), tf.float64)
    if spec.clip:
        x = tf.clip_by_value(x, *(tf.constant(bound, tf.float64) for bound in spec.clip))
    if spec.log:
        x = tf.sign(x) * tf.math.log(1.0 + tf.abs(x))
    limit = tf.constant(fit.limit(spec), tf.float64)
    y = tf.clip_by_value((x - fit.center) / fit.scale, -limit, limit)
    y = tf.where(tf.math.is_nan(values), tf.constant(fit.fill, tf.float64), y)
    return tf.cast(y, tf.float32)


def encode_buckets(values: tf.Tensor, spec: BucketedSpec, fit: BucketFit) -> tf.Tensor:
    """Return the bucket ids of raw float32 values, as `features.numeric` does."""
    missing = tf.math.is_nan(values)
    x = tf.cast(tf.clip_by_value(values, -FLOAT32_MAX, FLOAT32_MAX), tf.float64)
    x = tf.where(missing, tf.zeros_like(x), x)
    if spec.log_squared:
        logarithm = tf.math.log(tf.maximum(x, 1.0))
        bucket = tf.floor(tf.where(x > 2, logarithm * logarithm, x))
        lowest, highest = float(fit.lowest), float(fit.highest)
        bucket = tf.cast(tf.clip_by_value(bucket, lowest, highest) - lowest, tf.int32)
    else:
        edges = tf.constant(fit.edges, tf.float64)
        flat = tf.searchsorted(edges, tf.reshape(x, [-1]), side="right")
        bucket = tf.reshape(flat, tf.shape(x))
    return tf.where(missing, MISSING, FIRST_UNKNOWN + bucket)
