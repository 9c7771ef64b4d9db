# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

FAULTS = """
import resource
from pipeline.allocation import keep_large_blocks

keep_large_blocks()

def faults():
    bytearray(2**26)  # 16,384 pages of 4 KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

first, second = faults(), faults()
print(second - first)
"""


def test_a_large_block_is_used_again():
    done = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True)
    assert int(done.stdout) < 1_000
