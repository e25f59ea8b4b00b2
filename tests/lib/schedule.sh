# shellcheck shell=bash disable=SC2154
# tests/lib/schedule.sh - runs the parts of tests/run: as many at a time as the processors have room for. Sourced.
#
# A part takes some seconds and keeps some processors busy (tests/lib/seconds). The first part in the list that fits
# beside those that run starts. More processors are given away than there are, since no part is busy all the time.
room=$(($(nproc) * 10 + 15))  # tenths of processors
[ $room -ge 35 ] || room=35

# How long a part takes here: as long as last time, or as on two idle processors.
expected_seconds() {  # PART
    local seconds
    seconds=$(awk -v part="$1" '$1 == part { print $2 }' "$results/seconds" 2>/dev/null)
    [ -n "$seconds" ] || seconds=$(awk -v part="$1" '$1 == part { print $2 }' tests/lib/seconds)
    echo "${seconds:-60}"
}

# How many processors it keeps busy, in tenths. What only nightly has is alone.
tenths() {  # PART
    local tenths
    tenths=$(awk -v part="$1" '$1 == part { print $3 * 10 }' tests/lib/seconds)
    echo "${tenths:-$room}"
}

keep_seconds() {  # PART SECONDS
    { grep -v "^$1 " "$results/seconds" 2>/dev/null; echo "$1 $2"; } >"$results/seconds.new"
    mv "$results/seconds.new" "$results/seconds"
}

# What is left: the longest part that runs or waits, or the work of all of them, whichever is more.
remaining() {
    local part seconds work=0 longest=0
    for part in "${waiting[@]}" "${running[@]}"; do
        seconds=$(expected_seconds "$part")
        [ -z "${began[$part]:-}" ] || seconds=$((seconds - (SECONDS - began[$part])))
        [ "$seconds" -gt 0 ] || continue
        work=$((work + seconds * $(tenths "$part")))
        [ "$seconds" -le $longest ] || longest=$seconds
    done
    seconds=$((work / (room - 5)))
    [ "$seconds" -ge $longest ] || seconds=$longest
    [ ${#waiting[@]} = 0 ] && [ ${#running[@]} = 0 ] || echo "; about $(((seconds + 59) / 60)) min remain"
}

# On a terminal a line says what runs; it goes when a part ends.
show_progress() {
    local part line
    while sleep 1; do
        line=''
        while read -r part start expected; do
            line+="${line:+, }$part $((SECONDS - start)) s of about $expected s"
        done <"$state/now"
        printf '\r\033[K%s' "${line:0:$((${COLUMNS:-100} - 1))}" >&2
    done
}
tell_progress() {  # what runs now
    local part
    for part in "${running[@]}"; do echo "$part ${began[$part]} $(expected_seconds "$part")"; done >"$state/now.new"
    mv "$state/now.new" "$state/now"
}

# What a part that came to a bad end left running: all that a part starts knows the folder for temporary files of the part.
# Again until none is left, because those that are not ended yet start others.
end_leftovers() {  # FOLDER
    local round environ pid args all
    for round in {1..20}; do
        all=$(grep -lzxF -e "TMPDIR=$1" /proc/[0-9]*/environ 2>/dev/null)
        [ -n "$all" ] || break
        for environ in $all; do
            pid=${environ#/proc/}
            pid=${pid%/environ}
            [ "$pid" != $$ ] || continue
            args=$(ps -o args= -p "$pid" | cut -c 1-160)
            [[ -z $args || $args == *'<defunct>' ]] || say "left running, and ended now: $args"
            kill -KILL "$pid" 2>/dev/null
        done
        [ "$round" = 1 ] || sleep 0.1
    done
    # Machines of tests have their folders on file systems of their own.
    awk -v of="$1/" 'index($2, of) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount -l 2>/dev/null
    rm -rf "$1"
}

# Each part in a shell of its own: one whose build fails, or that ends half way, has failed, and the others go on. What
# it says of failures is printed when it ends. Its folder for temporary files has a short name, because sockets lie in it.
begin_part() {  # PART
    folders[$1]=$(mktemp -d /tmp/ft.XXXX)
    began[$1]=$SECONDS
    rm -f "$state/$1.counts"
    (
        export TMPDIR=${folders[$1]}
        passed=0 failed=0 skipped=0 now_part=$1
        "part_$1"
        echo "$passed $failed $skipped" >"$state/$1.counts"
        times >"$state/$1.times"
    ) 2>"$state/$1.err" &
    running[$!]=$1
    tell_progress
}

end_part() {  # PART
    local good bad skips seconds=$((SECONDS - began[$1])) cpu
    [ -z "$progress" ] || printf '\r\033[K' >&2
    unset "began[$1]"
    end_leftovers "${folders[$1]}"
    unset "folders[$1]"
    cat "$state/$1.err" >&2
    if [ -s "$state/$1.counts" ] && read -r good bad skips <"$state/$1.counts"; then
        count "$good" "$bad" "$skips"
        cpu=$(awk '{ for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } } END { printf "%d", sum }' "$state/$1.times")
        echo "$1: $seconds s, in which its processes took $cpu s of processors" >>"$results/run.log"
        [ "$bad" != 0 ] || keep_seconds "$1" "$seconds"
        shout "$(printf '%-16s %5d passed, %d failed, %d skipped in %d s%s' "$1" "$good" "$bad" "$skips" "$seconds" "$(remaining)")"
    else
        fail "$1 did not come to its end"
    fi
}

# Parts that compute have the processors one after the other. As long as there are some, those that mostly wait get
# what one of them leaves, or else they would take all room first and be in each other's way at the end.
computes() { [ "$(tenths "$1")" -ge 15 ]; }  # PART

may_start() {  # PART
    local part busy=0 computing=''
    # Its programs are built of what the others leave of the processors.
    [ "$1" != kube ] || [ -z "$early" ] || ! kill -0 "$early" 2>/dev/null || [ ${#running[@]} = 0 ] || return 1
    for part in "${running[@]}"; do
        [ "$part" != "$1" ] || return 1  # it uses the files of the one that runs
        if computes "$part"; then computing=1; fi
        busy=$((busy + $(tenths "$part")))
    done
    if computes "$1"; then
        [ -z "$computing" ] || return 1
    elif [ -z "$computing" ]; then
        for part in "${waiting[@]}"; do
            if computes "$part"; then busy=$((busy + 20)) && break; fi
        done
    fi
    [ ${#running[@]} = 0 ] || [ $((busy + $(tenths "$1"))) -le $room ]
}

declare -A running=() began=() folders=()  # by process, and by part
waiting=() progress=''

run_parts() {  # PART...
    local i pid part
    waiting=("$@")
    : >"$state/now"
    if [ -t 2 ]; then
        show_progress &
        progress=$!
    fi
    while [ ${#waiting[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
        i=0
        while [ $i -lt ${#waiting[@]} ]; do
            part=${waiting[$i]}
            if may_start "$part"; then
                waiting=("${waiting[@]:0:$i}" "${waiting[@]:$((i + 1))}")
                begin_part "$part"
            else
                i=$((i + 1))
            fi
        done
        wait -n -p pid "${!running[@]}"
        part=${running[$pid]}
        unset "running[$pid]"
        end_part "$part"
        tell_progress
    done
    [ -z "$progress" ] || { kill "$progress" && wait "$progress"; } 2>/dev/null
}
