#!/bin/sh
# Brings Mesa's software Vulkan driver (lavapipe), so that the WebGPU provider runs on a machine without a GPU.
#
#   export $(infra/webgpu/fetch-driver.sh)      # VK_ICD_FILENAMES, LD_LIBRARY_PATH, … for the processes started next
#
# The packages come from the distribution's own archive, which the machine's apt configuration names, and are unpacked into
# .tutti/vulkan (or the folder given as $1): nothing is installed, and no privilege is needed. Debian 12's own Mesa (22.3) is refused by
# the provider, so there its backports are used. A second call finds what the first one unpacked.
#
# Exit status: 0 and the environment on stdout, or 1 and the reason in one line on stderr.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
home=${1:-$root/.tutti/vulkan}
ready=$home/ready-1 # counts up when what is unpacked changes

fail() {
  echo "no software Vulkan driver: $1" >&2
  exit 1
}

environment() {
  libraries=$home/root/usr/lib/$(uname -m)-linux-gnu
  echo "VK_ICD_FILENAMES=$home/lavapipe.json"
  echo "VK_DRIVER_FILES=$home/lavapipe.json"
  echo "LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  echo "XDG_RUNTIME_DIR=$home/runtime"
  echo "LP_NUM_THREADS=1" # steady times, and processes side by side don't fight for cores
}

if [ -f "$ready" ]; then
  environment
  exit 0
fi

for tool in apt-get dpkg flock; do
  command -v "$tool" >/dev/null || fail "it comes as Debian packages, and $tool isn't here"
done
mkdir -p "$home"
exec 9>"$home/lock"
flock -w 300 9 || fail "another process has been fetching it for five minutes"
if [ -f "$ready" ]; then # the other process brought it
  environment
  exit 0
fi

mkdir -p "$home/lists/partial" "$home/archives/partial" "$home/runtime"
chmod 700 "$home/runtime"
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --format '$(REPO_URI)|$(RELEASE)' 'Created-By: Packages' | sed -n "s/|$codename\$//p" | head -n 1)
[ -n "$mirror" ] || fail "apt knows no archive of $codename"
suite=$codename
[ "$codename" = bookworm ] && suite=bookworm-backports
signed=
for keyring in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/ubuntu-archive-keyring.gpg; do
  case $keyring in *"$(. /etc/os-release && echo "$ID")"*) [ -f "$keyring" ] && signed="[signed-by=$keyring] " ;; esac
done
{
  echo "deb $signed$mirror $codename main"
  [ "$suite" = "$codename" ] || echo "deb $signed$mirror $suite main"
} >"$home/sources.list"

apt() {
  apt-get -q -o Debug::NoLocking=1 -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o APT::Sandbox::User= \
    -o Dir::Etc::SourceList="$home/sources.list" -o Dir::Etc::SourceParts=- -o Dir::Etc::PreferencesParts=- \
    -o Dir::State::Lists="$home/lists" -o Dir::Cache="$home" -o Dir::Cache::Archives="$home/archives" "$@" 9>&-
}
log=$home/log
apt update -o APT::Update::Error-Mode=any >"$log" 2>&1 || fail "the archive $mirror can't be reached (see $log)"
apt install --yes --no-install-recommends --download-only --reinstall -t "$suite" mesa-vulkan-drivers libvulkan1 >>"$log" 2>&1 ||
  fail "its packages can't be downloaded (see $log)"

rm -rf "$home/root"
for package in "$home"/archives/*.deb; do
  dpkg -x "$package" "$home/root" || fail "$package can't be unpacked"
done
driver=$(find "$home/root" -name libvulkan_lvp.so | head -n 1)
[ -n "$driver" ] || fail "mesa-vulkan-drivers holds no lavapipe"
# The driver's own file names the library by a path that only holds once it is installed.
cat >"$home/lavapipe.json" <<JSON
{ "file_format_version": "1.0.0", "ICD": { "api_version": "1.4.0", "library_path": "$driver" } }
JSON
rm -rf "$home/lists" "$home/archives" "$home"/*.bin
touch "$ready"
environment
