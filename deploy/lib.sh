# shellcheck shell=bash disable=SC2154
# deploy/lib.sh - what deploy/run, deploy/cluster, deploy/release and tests/run share. Sourced; needs $top, the repository.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# try TIMES COMMAND...: until it succeeds, with a pause that grows: a network may be away for a moment.
try() {
    local times=$1 i
    shift
    for ((i = 1; ; i++)); do
        "$@" && return 0
        ((i < times)) || return 1
        sleep $((i * 5))
    done
}

install_packages() {  # PREFIX-COMMAND... -- PACKAGE...
    local with=()
    while [ "$1" != -- ]; do with+=("$1") && shift; done
    shift
    # A source of somebody else that cannot be reached must not be in the way, so only the second answer counts. Another
    # apt may hold the lock for a while.
    "${with[@]}" apt-get -q -o Acquire::Retries=3 update
    "${with[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
}

# need_packages FILE...: installs the Debian packages that the files name and that are missing: as root, or by a sudo
# that asks nothing.
need_packages() {
    local missing=() with=() package
    command -v dpkg-query >/dev/null || die "this is not Debian; install by other means what $* name"
    for package in $(cat "$@" | sed 's/#.*//'); do
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
        with=(sudo -n)
    elif [ "$(id -u)" != 0 ]; then
        say "${#missing[@]} packages are missing. Run this as root, then try again:"
        printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
        exit 1
    fi
    say "installing ${#missing[@]} packages${with:+ with sudo}: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! try 4 install_packages "${with[@]}" -- "${missing[@]}" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "apt-get could not install, in four attempts: ${missing[*]}"
    fi
    rm -f "$log"
}

# build PRESET TARGET...: configures and builds; prints the log only if that fails. Of calls at the same time each waits for the one before it.
build() {
    local preset=$1 log="$top/build/$1.log"
    shift
    mkdir -p "$top/build" 2>/dev/null && [ -w "$top/build" ] || die "$top/build cannot be written to by $(id -un)"
    say "building $preset ($*)$([ -d "$top/build/$preset" ] || echo ', which takes a minute or two the first time')"
    if ! (flock 9 && cmake -S "$top" --preset "$preset" && cmake --build "$top/build/$preset" --target "$@") 9>"$top/build/$preset.lock" >"$log" 2>&1; then
        { sed -n '/^\(FAILED:\|CMake Error\)/,$p' "$log" | grep . || tail -n 30 "$log"; } | grep -v '^\[' | cut -c 1-240 | head -n 40 >&2
        die "the build failed; its log is build/$preset.log"
    fi
}

moment() { read -r -t 0.1 _ <> <(:) || true; }

# pid_of PIDFILE PROGRAM ARGUMENT: the process that an earlier call started, if it still is that one: a build since then
# replaced its file, and after a restart of the machine its number may be of another.
pid_of() {
    local pid exe
    pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return 1
    exe=$(readlink "/proc/$pid/exe" 2>/dev/null) && exe=${exe% (deleted)} && exe=${exe##*/}
    # shellcheck disable=SC2053  # a pattern
    [[ $exe == $2 ]] && grep -qzxF -e "$3" "/proc/$pid/cmdline" && echo "$pid"
}

# Of an address to listen on: as a part of host:port, and where to reach it.
bracketed() { case $1 in *:*) echo "[${1//[\[\]]/}]" ;; *) echo "$1" ;; esac; }
host_of() {
    case $1 in
    0.0.0.0 | '') echo 127.0.0.1 ;;
    '::' | '[::]') echo '[::1]' ;;
    *) bracketed "$1" ;;
    esac
}

# Does GET /ready of http://host:port/ say yes? Needs no program that bare Debian lacks.
ready() {
    local at=$1 host answer
    at=${at#http://}
    at=${at%/}
    host=${at%:*}
    { exec 3<>"/dev/tcp/${host//[\[\]]/}/${at##*:}"; } 2>/dev/null || return 1
    printf 'GET /ready HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$at" >&3
    IFS= read -r -t 5 answer <&3 || answer=''
    exec 3>&-
    [[ $answer == 'HTTP/1.1 200'* ]]
}

# end PID...: asks them to stop and waits until they are gone.
end() {
    local pid i
    kill -TERM "$@" 2>/dev/null || true
    for pid in "$@"; do
        for ((i = 0; i < 600; i++)); do
            # A zombie is gone: whoever started it does not wait for it.
            [[ $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) == [!ZX]* ]] || continue 2
            moment
        done
        die "process $pid does not stop"
    done
}

# The last line of a log that is more than news.
why() { grep -v '^ts=.* level=\(info\|debug\)' "$1" | tail -n 1; }
