#!/bin/sh
# Installs what `make demo` and `make test` need on a Debian or Ubuntu machine that has only Python
# 3.11 or newer, git and make. It installs as root or with sudo; without these rights it says in one
# sentence what to install. A second run takes a second or two. `prepare.sh packages` installs the
# Python packages alone.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
export UV_PYTHON_DOWNLOADS=never

say() { printf 'prepare: %s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

apt_updated=
install() {  # install PACKAGE...
    if ! command -v apt-get >/dev/null 2>&1 || ! as_root true; then
        stop "please install $* with your package manager (or run this as root), then try again."
    fi
    if [ -z "$apt_updated" ]; then
        as_root apt-get update -qq >&2 || stop "apt-get update failed; is the network up?"
        apt_updated=yes
    fi
    say "installing $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >build/apt.log 2>&1 || stop "apt-get could not install $*; see build/apt.log."
}

mkdir -p build

# --- Python -------------------------------------------------------------------------------------
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || stop "Python 3.11 or newer is needed; python3 is not on PATH."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1). Set PYTHON to another."
python=$("$python" -c 'import sys; print(sys.executable)')

if command -v uv >/dev/null 2>&1; then
    uv=$(command -v uv)
else
    uv=build/uv/bin/uv
    if [ ! -x "$uv" ]; then
        rm -rf build/uv
        if ! "$python" -m venv build/uv >build/venv.log 2>&1; then
            rm -rf build/uv
            install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
            "$python" -m venv build/uv >build/venv.log 2>&1 || stop "no virtual environment; see build/venv.log."
        fi
        say "installing uv"
        build/uv/bin/pip install --quiet --disable-pip-version-check uv ||
            stop "uv could not be installed from PyPI; is the network up?"
    fi
fi
"$uv" sync --quiet --frozen --python "$python" ||
    stop "the Python packages could not be installed; is PyPI reachable?"
[ "${1:-}" != packages ] || exit 0

# --- Redis --------------------------------------------------------------------------------------
command -v redis-server >/dev/null 2>&1 || install redis-server

# --- Docker -------------------------------------------------------------------------------------
# `docker top`, which tests ask what still runs, is `ps` on the daemon's machine.
command -v ps >/dev/null 2>&1 || install procps

docker_answers() { .venv/bin/python -m sandbox.docker.base_image --ping >build/docker.log 2>&1; }

start_docker() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker >/dev/null 2>&1 || true
    else
        say "starting dockerd (its log: build/dockerd.log)"
        # shellcheck disable=SC2016  # the inner shell expands it
        as_root sh -c 'setsid dockerd >"$0" 2>&1 </dev/null &' "$here/build/dockerd.log" || true
    fi
    tries=0
    until docker_answers; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || return 1
        sleep 0.5
    done
}

if ! docker_answers; then
    command -v dockerd >/dev/null 2>&1 || install docker.io
    docker_answers || start_docker || stop "$(cat build/docker.log)"
fi

# --- The sandbox's base image -------------------------------------------------------------------
if ! .venv/bin/python -m sandbox.docker.base_image --check 2>/dev/null; then
    command -v mmdebstrap >/dev/null 2>&1 || [ ! -x /usr/bin/apt-get ] ||
        install mmdebstrap debian-archive-keyring
    .venv/bin/python -m sandbox.docker.base_image >&2 || exit 1
fi
