#!/bin/sh
# Brings onnxruntime's CUDA provider, and CUDA's libraries where the machine has none, so that `--provider cuda` needs an NVIDIA driver only.
#
#   export $(infra/cuda/fetch-provider.sh)      # LD_LIBRARY_PATH for the processes started next
#
# The provider comes out of Python's onnxruntime-gpu of the version that onnxruntime-node has here: that release of it is built for CUDA 13,
# and from the same sources. The libraries are NVIDIA's own Python packages. All goes into .tutti/cuda (or the folder given as $1), a download
# of about 1 GB (0.25 GB where CUDA 13 is installed), and the provider beside onnxruntime-node's library, which looks for it there alone. No
# privilege is needed. A second call finds what the first one brought.
#
# Exit status: 0 and the environment on stdout, or 1 and the reason in one line on stderr.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
home=${1:-$root/.tutti/cuda}
library=$root/node_modules/onnxruntime-node/bin/napi-v6/linux/x64

fail() {
  echo "no CUDA provider: $1" >&2
  exit 1
}

[ "$(uname -sm)" = "Linux x86_64" ] || fail "it is built for Linux on x86-64, and this is $(uname -sm)"
[ -e "$library/libonnxruntime.so.1" ] || fail "onnxruntime-node isn't installed: npm run setup"
python=$(command -v python3) || fail "it comes as a Python package, and python3 isn't here"
"$python" -m pip --version >/dev/null 2>&1 || fail "it comes as a Python package, and pip isn't here: apt-get install python3-pip"
version=$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$root/node_modules/onnxruntime-node/package.json" | head -1)
mkdir -p "$home"
home=$(cd "$home" && pwd)
ready=$home/$version

pip_to() {
  to=$1
  shift
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --target "$to" "$@" >&2 || fail "pip can't fetch $*"
}

if [ ! -f "$ready/ready" ]; then
  echo "fetching onnxruntime's CUDA provider $version" >&2
  rm -rf "$ready"
  # By its platform, not by this Python: nothing of it is run.
  pip_to "$ready" --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 "onnxruntime-gpu==$version"
  if ! ldconfig -p 2>/dev/null | grep -q libcublasLt.so.13 || ! ldconfig -p | grep -q libcudnn.so.9; then
    echo "fetching CUDA's libraries" >&2
    pip_to "$ready" nvidia-cublas==13.10.0.20 nvidia-cuda-runtime==13.5.37 nvidia-curand==10.4.5.25 nvidia-cufft==12.5.0.14 \
      nvidia-cuda-nvrtc==13.5.37 nvidia-nvjitlink==13.5.37 nvidia-cudnn-cu13==9.28.1.4
  fi
  touch "$ready/ready"
fi
for name in cuda shared; do
  ln -sf "$ready/onnxruntime/capi/libonnxruntime_providers_$name.so" "$library/"
done
folders=
for folder in "$ready"/nvidia/*/lib; do
  [ -d "$folder" ] && folders=$folders:$folder
done
# No empty entry: that would be the current directory.
all=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
echo "LD_LIBRARY_PATH=${all#:}"
