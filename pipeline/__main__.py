# SPDX-License-Identifier: Apache-2.0
from pipeline.cli import main

main()
