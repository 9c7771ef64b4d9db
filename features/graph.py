# SPDX-License-Identifier: Apache-2.0
"""The transforms of `features.encode` as a TensorFlow graph: the front half of a SavedModel.

Missing values: empty text, the smallest int64, NaN.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from features.graph_moments import MISSING_INTEGER, part_of, seconds_of_count, seconds_of_text
from features.numeric import BucketFit, NumericFit
from features.raw import NullRule
from features.schema import FIRST_UNKNOWN, MISSING, FeatureSchema, History, length_key, weight_key
from features.space import FeatureSpace, missing_flag_name
from features.specs import (
    BucketedSpec,
    CategoricalSpec,
    DatetimeSpec,
    InputType,
    NumericSpec,
    RawInput,
    input_names,
)
from features.vocabulary import Vocabulary

Tensors = Mapping[str, tf.Tensor]
_DTYPES: Mapping[InputType, tf.DType] = {
    "text": tf.string, "integer": tf.int64, "number": tf.float32, "texts": tf.string,
}  # fmt: skip
_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))
_FLOAT32_MAX = tf.float32.max


def escape(text: str) -> str:
    """Write a value on one line of an asset file."""
    for plain, written in _ESCAPES:
        text = text.replace(plain, written)
    return text


class VocabularyLookup(tf.Module):
    """Texts to ids by a vocabulary that becomes an asset of the SavedModel.

    Args:
        vocabulary: Known values.
        path: Asset file that is written, one escaped value a line.
    """

    def __init__(self, vocabulary: Vocabulary, path: Path) -> None:
        super().__init__()
        self.first_known = vocabulary.first_known
        self.num_oov = vocabulary.num_oov
        lines = [escape(value) for value in vocabulary.values.to_pylist()]
        self.escaped = lines != vocabulary.values.to_pylist()
        self.table = None
        if lines:  # an empty file cannot be a table; then every value is unknown
            path.write_bytes("".join(line + "\n" for line in lines).encode())
            initializer = tf.lookup.TextFileInitializer(
                str(path),
                key_dtype=tf.string,
                key_index=tf.lookup.TextFileIndex.WHOLE_LINE,
                value_dtype=tf.int64,
                value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
            )
            self.table = tf.lookup.StaticHashTable(initializer, default_value=-1)

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Return ids, int32 of the same shape; empty text is missing."""
        unknown = FIRST_UNKNOWN + tf.strings.to_hash_bucket_fast(texts, self.num_oov)
        ids = unknown
        if self.table is not None:
            line = self.table.lookup(self._escape(texts))
            ids = tf.where(line >= 0, line + self.first_known, unknown)
        return _with_missing(texts, ids)

    def _escape(self, texts: tf.Tensor) -> tf.Tensor:
        if not self.escaped:
            return texts
        for pattern, written in (("\\\\", "\\\\\\\\"), ("\n", "\\\\n"), ("\r", "\\\\r")):
            texts = tf.strings.regex_replace(texts, pattern, written)
        return texts


class HashLookup(tf.Module):
    """Texts to ids by FarmHash Fingerprint64 modulo a number of buckets."""

    def __init__(self, num_buckets: int) -> None:
        super().__init__()
        self.num_buckets = num_buckets

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Return ids, int32 of the same shape; empty text is missing."""
        ids = FIRST_UNKNOWN + tf.strings.to_hash_bucket_fast(texts, self.num_buckets)
        return _with_missing(texts, ids)


def _with_missing(texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.where(tf.equal(texts, ""), tf.constant(MISSING, tf.int64), ids), tf.int32)


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
        self.sources = {f.name: names[f.name] for f in (*schema.categorical, *schema.lists)}
        for feature in schema.numeric:
            self.sources[feature.name] = names[self._numeric_owner(feature.name)]
        self.raw = {raw.name: raw for raw in space.inputs}
        self.lookups: dict[str, Any] = {}
        for number, table in enumerate(t.name for t in schema.tables):
            spec = space.specs[table]
            if isinstance(spec, CategoricalSpec):
                self.lookups[table] = (
                    HashLookup(spec.hash_buckets)
                    if spec.hash_buckets
                    else VocabularyLookup(
                        space.vocabularies[table], assets / f"vocabulary_{number}_{table}.txt"
                    )
                )

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
            for channel, raw in self.channels(history).items():
                add(channel, _DTYPES[raw.type], 2)
            add(length_key(history.name), tf.int32, 1)
        return specs

    def channels(self, history: History) -> dict[str, RawInput]:
        """Return the raw input that each channel of a history repeats."""
        names = input_names(self.space.specs)
        prefix = len(history.name) + 1
        return {c.name: self.raw[names[c.target or c.name[prefix:]]] for c in history.channels}

    def __call__(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        """Encode raw inputs, as `signature` describes them, to a batch."""
        batch: dict[str, tf.Tensor] = {}
        for feature in self.schema.categorical:
            batch[feature.name] = self.ids(feature.name, inputs[self.sources[feature.name]])
        for feature in self.schema.numeric:
            batch[feature.name] = self._number(feature.name, inputs)
        for feature in self.schema.lists:
            self._list(feature.name, feature.max_items, inputs, batch)
        for history in self.schema.histories:
            self._history(history, inputs, batch)
        return batch

    def ids(self, feature: str, values: tf.Tensor) -> tf.Tensor:
        """Return the ids of raw values of one feature, int32 of the same shape."""
        spec = self.space.specs[feature]
        match spec:
            case BucketedSpec():
                return encode_buckets(values, spec, self.space.buckets[feature])
            case DatetimeSpec():
                return self._part(values, spec)
            case CategoricalSpec():
                table = spec.table or feature
                return self.lookups[table](self._text(values, tokens=spec.separator is None))
        raise TypeError(f"{feature} has no ids")

    def _text(self, values: tf.Tensor, tokens: bool) -> tf.Tensor:
        if values.dtype == tf.int64:
            return tf.where(values == MISSING_INTEGER, "", tf.strings.as_string(values))
        if self.rule.trim:
            values = tf.strings.strip(values)
        if tokens:
            for token in self.rule.tokens:
                values = tf.where(tf.equal(values, token), "", values)
        return values

    def _number(self, feature: str, inputs: Tensors) -> tf.Tensor:
        owner = self._numeric_owner(feature)
        values = inputs[self.sources[feature]]
        if owner != feature:
            return tf.cast(tf.math.is_nan(values), tf.float32)
        spec = self.space.specs[owner]
        if not isinstance(spec, NumericSpec):
            raise TypeError(f"{owner} is not numeric")
        return encode_numeric(values, spec, self.space.numbers[owner])

    def _list(
        self, feature: str, max_items: int, inputs: Tensors, batch: dict[str, tf.Tensor]
    ) -> None:
        source = self.sources[feature]
        items = inputs[source][:, :max_items]
        length = tf.clip_by_value(inputs[length_key(source)], 0, tf.shape(items)[1])
        real = tf.sequence_mask(length, tf.shape(items)[1])
        batch[feature] = tf.where(real, self.ids(feature, items), 0)
        batch[length_key(feature)] = length
        if weight_key(source) in inputs:
            batch[weight_key(feature)] = tf.where(
                real, inputs[weight_key(source)][:, :max_items], 0.0
            )

    def _history(self, history: History, inputs: Tensors, batch: dict[str, tf.Tensor]) -> None:
        """Keep the newest events: the last `max_items` of the first `length`."""
        first = inputs[history.channels[0].name]
        given = tf.shape(first)[1]
        length = tf.clip_by_value(inputs[length_key(history.name)], 0, given)
        width = tf.minimum(given, history.max_items)
        kept = tf.minimum(length, width)
        places = (length - kept)[:, None] + tf.range(width)
        real = tf.sequence_mask(kept, width)
        places = tf.where(real, places, 0)
        for channel, raw in self.channels(history).items():
            values = tf.gather(inputs[channel], places, batch_dims=1)
            ids = self.ids(self._feature_of(history, channel), values)
            batch[channel] = tf.where(real, ids, 0)
            del raw
        batch[length_key(history.name)] = kept

    @staticmethod
    def _feature_of(history: History, channel: str) -> str:
        return channel[len(history.name) + 1 :]

    def _part(self, values: tf.Tensor, spec: DatetimeSpec) -> tf.Tensor:
        if spec.unit:
            seconds, known = seconds_of_count(values, spec.unit)
        else:
            seconds, known = seconds_of_text(self._text(values, tokens=True), spec.format)
        part = part_of(seconds, spec.part)
        return tf.cast(tf.where(known, part + FIRST_UNKNOWN, MISSING), tf.int32)


def encode_numeric(values: tf.Tensor, spec: NumericSpec, fit: NumericFit) -> tf.Tensor:
    """Return the encoded float32 of raw float32 values, as `features.numeric` does."""
    x = tf.cast(tf.clip_by_value(values, -_FLOAT32_MAX, _FLOAT32_MAX), tf.float64)
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
    x = tf.cast(tf.clip_by_value(values, -_FLOAT32_MAX, _FLOAT32_MAX), tf.float64)
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
