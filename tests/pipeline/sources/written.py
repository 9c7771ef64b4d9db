# SPDX-License-Identifier: Apache-2.0
"""Content of files, and kinds of columns that are read from them."""

import json
import random

TEXT = {"kind": "categorical"}
INT = {"kind": "categorical", "type": "int"}
NUMBER = {"kind": "numeric"}
ABY = {"a": TEXT, "b": NUMBER}


def seeded(seed):
    return random.Random(seed)  # noqa: S311 - test data


def jsonl(*documents):
    return "".join((d if isinstance(d, str) else json.dumps(d)) + "\n" for d in documents)


def lines(rejects):
    return [reject["line"] for reject in rejects]
