# SPDX-License-Identifier: Apache-2.0
"""Texts to ids in a TensorFlow graph: by a vocabulary, which becomes an asset, or by hashing."""

from pathlib import Path

import tensorflow as tf

from features.schema import FIRST_UNKNOWN, MISSING
from features.space import FeatureSpace
from features.vocabulary import Vocabulary

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))


def escape(text: str) -> str:
    """Write a value on one line of an asset file."""
    for plain, written in _ESCAPES:
        text = text.replace(plain, written)
    return text


def _literal(text: str) -> str:
    """Write a text so that a pattern, or what it is replaced with, means just that text."""
    return text.replace("\\", "\\\\")


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
        for plain, written in _ESCAPES:
            texts = tf.strings.regex_replace(texts, _literal(plain), _literal(written))
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


def build_lookup(space: FeatureSpace, table: str, path: Path) -> VocabularyLookup | HashLookup:
    """Return what looks up the ids of a table's texts.

    Args:
        space: The fitted feature space.
        table: Name of a categorical feature with a table of its own.
        path: Asset file that is written if the table has a vocabulary.
    """
    if table in space.vocabularies:
        return VocabularyLookup(space.vocabularies[table], path)
    return HashLookup(space.table_rows(table) - FIRST_UNKNOWN)


def _with_missing(texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.where(tf.equal(texts, ""), tf.constant(MISSING, tf.int64), ids), tf.int32)
