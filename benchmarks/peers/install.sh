#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the peers of compare.py into environments of their own: .venv-peers/{tf,torch,rust,cpp}.
#
#     sh benchmarks/peers/install.sh [ENVIRONMENT...]
#
# A peer that cannot be built here is reported and left out of the comparison.
set -u
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

install() {
    name=$1
    shift
    "$python" -m venv ".venv-peers/$name" || exit 1
    if ".venv-peers/$name/bin/pip" install -q "$@"; then
        echo "$name: installed"
    else
        echo "$name: could not be installed" >&2
        rm -rf ".venv-peers/$name"
    fi
}

for name in ${*:-tf torch rust cpp}; do
    case $name in
        tf) install tf tensorflow-cpu==2.21.0 tf-keras==2.21.0 deepctr==0.9.4 keras-rs==0.4.0 setuptools==80.9.0 ;;
        torch) install torch torch==2.13.0 deepctr-torch==0.3.0 torch-rechub==0.9.0 requests==2.34.2 ;;
        rust) install rust modern-fm==1.1.2 ;;
        cpp) install cpp numpy==2.3.5 pylibffm==0.4.1 ;;
        *) echo "no environment $name: tf, torch, rust, cpp" >&2; exit 2 ;;
    esac
done
