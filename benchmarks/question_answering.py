# SPDX-License-Identifier: Apache-2.0
"""Train the memory layers to answer questions on stories, outside of any click model.

    python -m benchmarks.question_answering memn2n --facts 2 --hops 3

Prints the share of right answers to test stories. Sentences are bags of words, with position
encoding for MemN2N; KV-MemNN reads windows with center encoding (Miller et al. 2016, §3.2), whose
keys have the time as one more word.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from benchmarks.stories import ROOMS, WORDS, Stories, tell
from models.layers.masking import length_mask
from models.layers.memory_episodes import DynamicMemory
from models.layers.memory_hops import EndToEndMemory, position_encoding, recency_ranks
from models.layers.memory_keys import KeyValueMemory
from models.layers.memory_slots import SupportingMemories

ANSWERS = slice(1, 1 + len(ROOMS))


class Options(NamedTuple):
    """How a reader is made and trained."""

    kind: str
    facts: int = 1
    hops: int = 3
    stories: int = 10_000
    longest: int = 10
    dim: int = 32
    batch: int = 64
    steps: int = 3_000
    rate: float = 0.01
    linear_share: float = 0.2
    empty_rate: float = 0.1
    supervised: bool = False
    seed: int = 1


class Reader(keras.layers.Layer):
    """Sentences and a question to scores of rooms; subclasses write `read`.

    Args:
        options: What it is made by.
        sets: Embeddings of each word.
        stddev: Of their coordinates at the start.
    """

    def __init__(self, options: Options, sets: int, stddev: float = 0.1) -> None:
        super().__init__()
        self.options = options
        normal = keras.initializers.RandomNormal(stddev=stddev)
        self.words = self.add_weight(
            name="words", shape=(len(WORDS), sets, options.dim), initializer=normal
        )

    def look_up(self, numbers: tf.Tensor) -> tf.Tensor:
        """Return the embeddings of words, (…, sets, dim); 0 of padding."""
        real = tf.cast(numbers > 0, tf.float32)[..., tf.newaxis, tf.newaxis]
        return tf.gather(tf.convert_to_tensor(self.words), numbers) * real

    def call(self, story: Stories, linear: bool = False, training: bool = False) -> tf.Tensor:
        """Return scores of the rooms, (batch, rooms)."""
        mask = length_mask(story.lengths, self.options.longest)
        return self.read(self.look_up(story.questions), self.look_up(story.sentences), mask, story,
                         linear, training)  # fmt: skip

    def read(
        self,
        question: tf.Tensor,
        sentences: tf.Tensor,
        mask: tf.Tensor,
        story: Stories,
        linear: bool,
        training: bool,
    ) -> tf.Tensor:
        """Return scores, from words (batch, 2, sets, dim) and (batch, items, 3, sets, dim)."""
        raise NotImplementedError


class MemN2NReader(Reader):
    """End-to-end memory, adjacent tying: W of the answer is C^K."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, options.hops + 1)
        self.memory = EndToEndMemory(
            options.hops, 2 * options.longest, empty_rate=options.empty_rate
        )

    def read(self, question, sentences, mask, story, linear, training):
        asked, told = (
            tf.constant(position_encoding(places, self.options.dim), tf.float32)[:, tf.newaxis]
            for places in (2, 3)
        )
        question = tf.reduce_sum(question * asked, axis=1)[:, 0]
        memories = tf.reduce_sum(sentences * told, axis=2)
        u, _ = self.memory(question, memories, mask, linear=linear, training=training)
        return tf.matmul(u, self.words[ANSWERS, -1], transpose_b=True)


class KVMemNNReader(Reader):
    """Keys are sentences with one word as their center, values those words; A = B, as in §3.1.

    A person, thing or room can be the center, so that a sentence makes two memories; as a center in
    a key, a word has another embedding. What a hop reads is then what the next one can compare.
    """

    def __init__(self, options: Options) -> None:
        stddev = options.dim**-0.25  # the product of two embeddings has variance 1
        super().__init__(options, 2, stddev)
        self.memory = KeyValueMemory(options.hops)
        normal = keras.initializers.RandomNormal(stddev=stddev)
        self.times = keras.layers.Embedding(options.longest, options.dim, normal)

    def read(self, question, sentences, mask, story, linear, training):
        time_words = self.times(tf.maximum(recency_ranks(mask), 0))
        words, centers = sentences[..., 0, :], sentences[..., 1, :]
        told = tf.reduce_sum(words, axis=2) + time_words
        places = (0, 2)
        keys = tf.concat([told - words[:, :, i] + centers[:, :, i] for i in places], axis=1)
        values = tf.concat([words[:, :, i] for i in places], axis=1)
        asked = tf.reduce_sum(question[..., 0, :], axis=1)
        q, _ = self.memory(asked, keys, values, tf.concat([mask, mask], axis=1))
        return tf.matmul(q, self.words[ANSWERS, 0], transpose_b=True)


class DMNReader(Reader):
    """Dynamic memory; with `supervised` its gates learn the supporting facts, as in §2.6."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, 1)
        self.memory = DynamicMemory(options.dim, options.hops, options.dim)
        self.out = keras.layers.Dense(len(ROOMS))

    def read(self, question, sentences, mask, story, linear, training):
        asked, told = tf.reduce_sum(question[:, :, 0], 1), tf.reduce_sum(sentences[..., 0, :], 2)
        answer, gates = self.memory(asked, told, mask)
        if training and self.options.supervised:
            # the last episode again and again where there are more episodes than facts
            places = [min(i, self.options.facts - 1) for i in range(self.options.hops)]
            wanted = tf.one_hot(tf.gather(story.facts, places, axis=1), self.options.longest)
            right = tf.where(wanted > 0, gates, 1.0 - gates)
            self.add_loss(-tf.reduce_mean(tf.reduce_sum(tf.math.log(right + 1e-6), axis=[1, 2])))
        return self.out(answer)


class MemNNReader(Reader):
    """Supporting memories, learnt from the facts; the answer is read off the last memory."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, 4)
        self.memory = SupportingMemories(options.facts, options.longest, gating="none", margin=0.5)

    def read(self, question, sentences, mask, story, linear, training):
        told = tf.reduce_sum(sentences, axis=2)
        q, *_ = self.memory(
            tf.reduce_sum(question, axis=1)[:, 1], told[:, :, 0], told[:, :, 2], mask,
            facts=story.facts, training=training,
        )  # fmt: skip
        return tf.matmul(q, self.words[ANSWERS, 3], transpose_b=True)


READERS: Mapping[str, Any] = {
    "memn2n": MemN2NReader,
    "kvmemnn": KVMemNNReader,
    "dmn": DMNReader,
    "memnn": MemNNReader,
}


def train(options: Options, report: Any = None) -> float:
    """Train a reader and return the share of right answers to 1,000 other stories.

    Args:
        options: The rate is halved five times over the steps, gradients are clipped to norm 40;
            the first `linear_share` of the steps of `memn2n` has no soft-max.
        report: Called with step and loss now and then.
    """
    keras.utils.set_random_seed(options.seed)
    stories = tell(options.stories, options.facts, options.longest, options.seed)
    test = Stories(*map(tf.constant, tell(1_000, options.facts, options.longest, 0)))
    reader = READERS[options.kind](options)
    reader(test)
    optimizer = keras.optimizers.Adam(options.rate, global_clipnorm=40.0)
    optimizer.build(reader.trainable_variables)

    def step(story: Stories, linear: bool) -> tf.Tensor:
        variables = [variable.value for variable in reader.trainable_variables]
        with tf.GradientTape() as tape:
            scores = reader(story, linear=linear, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(story.answers, scores)
            )
            total = tf.add_n([loss, *reader.losses])
        optimizer.apply(tape.gradient(total, variables), reader.trainable_variables)
        return loss

    graph = tf.function(step, autograph=False)
    rng = np.random.default_rng(options.seed)
    for number in range(options.steps):
        optimizer.learning_rate.assign(options.rate * 0.5 ** (6 * number // options.steps))
        story = stories.rows(rng.integers(options.stories, size=options.batch))
        linear = options.kind == "memn2n" and number < options.linear_share * options.steps
        loss = graph(Stories(*map(tf.constant, story)), linear)
        if report and number % 500 == 499:
            report(number + 1, float(loss))
    return float(np.mean(np.argmax(reader(test), axis=1) == test.answers))


def main() -> None:
    """Read the options, train, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=READERS)
    for name, default in Options._field_defaults.items():
        how = {"action": "store_true"} if default is False else {"type": type(default)}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **how)
    options = Options(**vars(parser.parse_args()))
    start = time.perf_counter()
    share = train(options, lambda step, loss: print(f"step {step:6} loss {loss:.4f}"))
    print(f"{options.kind}, {options.facts} facts, {options.hops} hops: {share:.1%} right, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
