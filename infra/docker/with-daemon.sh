#!/bin/sh
# Runs a command with a Docker daemon that answers, for machines of CI:
#
#   infra/docker/with-daemon.sh npm test
#
# A daemon that answers already is used. Else, for root on Debian, docker.io is installed where it is missing, and a daemon is started with data and
# socket in a temporary folder; it ends with the command. Where that fails or takes longer than two minutes, the reason is printed, and the
# command runs without one. The exit status is the command's.
set -u

begun=$(date +%s)
limit=120 # seconds
folder=
daemon=

stop() {
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null
    wait "$daemon"
    daemon=
  fi
  [ -z "$folder" ] || rm -rf "$folder"
  folder=
}

left() {
  echo $((begun + limit - $(date +%s)))
}

answers() {
  command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1
}

fail() {
  reason=$1
  shift
  echo "docker: no daemon for this run: $reason" >&2
  stop
  exec "$@"
}

answers && exec "$@"
[ "$(id -u)" = 0 ] || fail "only root can start one, and this is $(id -un)" "$@"
if ! command -v dockerd >/dev/null; then
  command -v apt-get >/dev/null || fail "it comes as a Debian package, and apt-get isn't here" "$@"
  echo "docker: installing docker.io" >&2
  # RUNLEVEL=1: the package's own service is not started.
  export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
  timeout "$(left)" sh -c 'apt-get -q update && apt-get -q install --yes --no-install-recommends docker.io' >/dev/null 2>&1
  unset RUNLEVEL DEBIAN_FRONTEND
  command -v dockerd >/dev/null || fail "apt-get can't install docker.io" "$@"
fi
# Until the command runs, a signal ends what was begun; afterwards it goes to the command.
trap 'stop; exit 143' TERM
trap 'stop; exit 130' INT
trap 'stop; exit 129' HUP
folder=$(mktemp -d "${TMPDIR:-/tmp}/tutti-docker-XXXXXX")
former=${DOCKER_HOST-}
export DOCKER_HOST="unix://$folder/docker.sock"
# In a session of its own: a Ctrl-C ends the command first. Another storage driver would copy whole images.
setsid dockerd --host "$DOCKER_HOST" --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
  --storage-driver overlay2 >"$folder/log" 2>&1 &
daemon=$!
until answers; do
  if ! kill -0 "$daemon" 2>/dev/null || [ "$(left)" -le 0 ]; then
    export DOCKER_HOST="$former"
    [ -n "$former" ] || unset DOCKER_HOST
    fail "dockerd doesn't run: $(tail -n 1 "$folder/log")" "$@"
  fi
  sleep 0.2 # its answer is the only sign
done
echo "docker: a daemon answers after $(($(date +%s) - begun)) s" >&2

"$@" &
command=$!
trap 'kill -TERM "$command"' TERM
trap 'kill -INT "$command"' INT
trap 'kill -HUP "$command"' HUP
wait "$command"
status=$?
while kill -0 "$command" 2>/dev/null; do # a signal came: the command ends in its own time
  wait "$command"
  status=$?
done
stop
exit "$status"
