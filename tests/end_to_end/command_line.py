# SPDX-License-Identifier: Apache-2.0
"""The command line in a process of its own."""

import subprocess
import sys

CLI = [sys.executable, "-m", "pipeline"]


def clickloom(*arguments):
    """Run a command to its end: exit code, stdout, stderr."""
    command = [*CLI, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def start(*arguments):
    """Start a command."""
    command = [*CLI, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
