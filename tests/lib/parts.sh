# shellcheck shell=bash disable=SC2154
# tests/lib/parts.sh - what each part of tests/run does, as a function part_NAME. Sourced.

python=/usr/bin/python3
need_server() { (flock 9; [ -e "$state/built" ] || { build asan all && : >"$state/built"; }) 9>"$state/built.lock" || exit 1; }

# Parts run side by side, and apt works for one at a time.
needs() { (flock 9; need_packages "$@") 9>"$state/packages.lock" || exit 1; }

# tests/mistakes/run wants to know what fails first, and no more; and of some parts only some tests.
stop=(${FT_TEST_STOP:+-x})
select=(${FT_TEST_SELECT:+-k "$FT_TEST_SELECT"})

# suite NAME DIR [PYTEST-ARGS...]: black-box tests against the sanitized build; below the command in `with`, if there is one
with=()
suite() {
    local name=$1 status
    shift
    rm -f "$results/$name.xml"
    "${with[@]}" "$python" -m pytest -q -p no:cacheprovider --junitxml="$results/$name.xml" -o junit_family=xunit2 "${stop[@]}" "$@" "${select[@]}" >"$results/$name.log" 2>&1
    status=$?
    [ $status != 5 ] || [ -z "${FT_TEST_SELECT:-}" ] || return 0  # none of these are selected
    [ $status = 0 ] || grep -vE '^\.+ *(\[|$)|^bringing up nodes' "$results/$name.log" | tail -n 150 >&2
    junit "$name" "$results/$name.xml" $status
}

# Uses of a stack that is gone are looked for here, and in the long tests of nightly: it makes a server a tenth slower.
stacks=:detect_stack_use_after_return=1

ctests() {  # NAME PRESET CTEST-ARGS...
    local name=$1 preset=$2 status
    shift 2
    local -x ASAN_OPTIONS=$ASAN_OPTIONS$stacks
    rm -f "$results/$name.xml"
    ctest --preset "$preset" -j 4 "$@" ${FT_TEST_PROGRAMS:+-R "$FT_TEST_PROGRAMS"} ${FT_TEST_STOP:+--stop-on-failure} --output-junit "$results/$name.xml" >"$results/$name.log" 2>&1
    status=$?
    junit "$name" "$results/$name.xml" $status
}

# In this build alone a warning is no error, since it may be made by any compiler; with ours there must be none (part_deploy). Whichever part builds it
# first meets them.
build_release() {  # TARGETS besides the program that is all in one
    build release flametree "$@"
    grep 'warning: ' build/release.log >>"$state/warnings" || true
}

part_lint() { one lint tests/lint; }

part_format() {
    local files
    mapfile -t files < <(git ls-files -- '*.c' '*.h' '*.cc')
    [ ${#files[@]} -gt 0 ] || die "git lists no sources here"  # and without names clang-format would read its input
    one format clang-format-14 --dry-run --Werror "${files[@]}"
}

# A test that has threads and is not in tests/unit/THREADS fails here, so that the next part forgets none
# (tests/lib/test.h). A part is a shell of its own: what it exports ends with it.
part_unit() {
    need_server
    export FLAMETREE_THREADS=$top/tests/unit/THREADS FLAMETREE_TORTURE=40
    ctests unit asan -L '^(unit|fuzz)$'
}

part_threads() {
    local programs
    mapfile -t programs < <(sed -n 's/^\([a-z0-9_.]*\):.*/\1/p' tests/unit/THREADS | sort -u)
    [ ${#programs[@]} -gt 0 ] || die "tests/unit/THREADS has no rows"
    build tsan "${programs[@]}"
    export FLAMETREE_THREADS=$top/tests/unit/THREADS FLAMETREE_TORTURE=40
    ctests threads tsan -R "^($(IFS='|'; echo "${programs[*]//./\\.}"))\$"
}

part_tidy() {
    local files
    build clang ft_proto
    mapfile -t files < <(git ls-files -- '*.c' | grep -v '^tests/')
    one tidy tests/lib/tidy.py build/clang "$results/tidy.log" "${files[@]}" >&2
    grep -E 'error:|warning:' "$results/tidy.log" | sort -u | head -n 60 >&2
}

part_docs() { need_server; suite docs tests/docs; }

part_corpus() {
    [ -r "$FLAMETREE_CORPUS/MANIFEST.tsv" ] || { skip corpus "no $FLAMETREE_CORPUS/MANIFEST.tsv"; return; }
    need_server
    local out status
    out=$("$python" tests/corpus/check.py build/asan/corpus_dump 2>&1)
    status=$?
    say "corpus: $(echo "$out" | tail -n 20)"
    if [[ $out =~ ([0-9]+)\ files\ passed,\ ([0-9]+)\ failed ]]; then
        count "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" 0
        [ $status = 0 ] || [ "${BASH_REMATCH[2]}" != 0 ] || fail "corpus ended with status $status"
    else
        fail "corpus (status $status)"
    fi
    suite corpus-programs tests/corpus -n 2
}

# Five at a time on two processors: most of them wait for something.
part_system() { need_server; suite system tests/system -n 5; }

# Memory is what it says only without sanitizers; everything else these tests look at, system has looked at with them.
part_resources() {
    build_release
    FLAMETREE_BIN=$top/build/release suite resources tests/system/test_overload.py tests/system/test_budget.py \
        tests/system/test_restart_log.py::test_two_gigabytes_of_log_are_read_after_a_kill
}

# Longer ones, of other seeds: tests/faults/run --help.
part_faults() {
    needs tests/faults/packages
    need_server
    suffer local --log local --tls off --minutes 1
    suffer object --log object --tls on --minutes 1
    suffer outage --log object --outage 0.5
}

suffer() {  # NAME ARGS...: one run of a fixed seed
    local log=$results/faults-$1.log
    shift
    if tests/faults/run --seed 18 "$@" >"$log" 2>&1; then
        count 1 0 0
    else
        fail "faults, $*"
        tail -n 60 "$log" >&2
    fi
    say "$(grep '  faults: ' "$log" | sed 's/.*  faults: /faults: /')"
}

part_oracle() { need_server; suite oracle tests/oracle -n 2; }

part_cases() { need_server; suite cases tests/cases -n 2; }

part_conservation() { need_server; suite conservation tests/conservation -n 2; }

# behind SERVICE: suites run on a bucket of it (tests/lib/radosgw.py, tests/lib/versitygw.py), as do the servers of `conform`.
behind() { with=("$python" "tests/lib/$1.py" --); }

# Of the oracle those tests that ask the store most, of kill points those that a store meets; all of it is in `stores`.
part_s3() {
    needs tests/s3/packages
    need_server
    suite s3 tests/s3 -n 3
    local with=()
    behind radosgw
    # As the chart installs it: the log in the bucket too, and members found by name.
    FLAMETREE_TEST_DNS=1 FLAMETREE_INGESTER_LOG=object conform s3-conformance-radosgw 'not multitenant and not limits' --levels --cluster
    FLAMETREE_TEST_DNS=1 FLAMETREE_INGESTER_LOG=object suite s3-object-log tests/oracle/test_levels.py tests/oracle/test_year.py -n 2 -k 'whatever_ingesters_do or brute_force[0] or cluster'
    behind versitygw
    suite s3-versitygw tests/oracle/test_levels.py tests/system/test_kill_points.py tests/system/test_compactor.py -n 2 \
        -k 'kill_at or failure_at or killed or whatever_ingesters_do[0] or levels_equal_brute_force[0]'
    behind azurite
    suite s3-azurite tests/oracle/test_levels.py -n 2 -k 'whatever_ingesters_do or brute_force[0]'
    behind radosgw
    suite s3-deletion tests/system/test_deletion.py tests/system/test_tenant_deletion.py -n 2
}

conform() {  # NAME SELECTION SERVER-ARGS...: the conformance suite, or what a pytest expression selects, on a server
    local name=$1 selection=$2 status plugins=(-p not_built -p split_urls)
    shift 2
    [[ ${1:-} != --levels ]] || plugins+=(-p flushed)
    rm -f "$results/$name.xml"
    FLAMETREE_STRICT=1 PYTHONPATH=tests/lib:tests/conformance "${with[@]}" "$python" tests/lib/with_server.py --config deploy/examples/stock-limits.yaml "$@" -- \
        "$python" -m pytest -q -p no:cacheprovider "${plugins[@]}" -n 2 -m "$selection" "${stop[@]}" --junitxml="$results/$name.xml" tests/conformance >"$results/$name.log" 2>&1
    status=$?
    [ $status = 0 ] || tail -n 150 "$results/$name.log" >&2
    junit "$name" "$results/$name.xml" $status
}

part_conformance() {
    need_server
    local topology
    for topology in '' --cluster; do
        conform "conformance$topology" 'not multitenant and not limits' $topology
        conform "conformance-levels$topology" 'not multitenant and not limits' --levels $topology
        FLAMETREE_MULTITENANT=1 conform "conformance-tenants$topology" multitenant --auth.multitenancy_enabled=true --admin.listen=public $topology
        FLAMETREE_MULTITENANT=1 FLAMETREE_LIMITS=1 FLAMETREE_TENANT=conf-a conform "conformance-limits$topology" limits \
            --auth.multitenancy_enabled=true --admin.listen=public --runtime_config.file="$PWD/tests/conformance/limits.yaml" $topology
    done
}

part_compat() { need_server; suite compat tests/compat; }

part_ui() {
    local node
    need_server
    node=$(tests/lib/node) || { skip ui "no Node.js >= 20.19 can be had"; return; }
    local status out good bad skips
    out=$(NODE_BIN_DIR=$node "$python" tests/lib/with_server.py --self-profile --self_profile.interval=1s -- querier/ui/check 2>&1)
    status=$?
    [ $status = 0 ] || echo "$out" | tail -n 60 >&2
    if [[ $out =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        out=$(echo "$out" | grep -E '^[0-9]+ passed, [0-9]+ failed' | tail -n 1)
        read -r good bad skips < <(echo "$out" | sed -E 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\1 \2 0\4/')
        count "$good" "$bad" "$skips"
        say "ui: $out"
        [ $status = 0 ] || [ "$bad" != 0 ] || fail "ui, or the server that it asked, ended with status $status"
    else
        fail "ui (status $status)"
    fi
}

part_deploy() {
    build_release
    suite deploy tests/deploy
    if [ -s "$state/warnings" ]; then
        sort -u "$state/warnings" | head -n 20 >&2
        cmake --build build/release --target clean >/dev/null  # so that the next run meets them again
        one "release builds without warnings" false
    else
        one "release builds without warnings" true
    fi
}

# Alerts wait for their causes.
part_helm() {
    need_server
    suite helm-alerts tests/helm/test_alerts_fire.py -n 4
    suite helm tests/helm -n 2 --ignore tests/helm/test_alerts_fire.py
}

part_install() {
    [ "$(id -u)" != 0 ] || needs tests/install/packages
    build_release flametree-distributor flametree-ingester flametree-querier flametree-compactor
    suite install tests/install -rs
}

# Docker's own package of containerd and runc stays: Debian's would take its place, and Docker with it.
kube_packages() {
    if dpkg-query -W -f='${db:Status-Status}' containerd.io 2>/dev/null | grep -qx installed; then
        grep -vxE 'containerd|runc' tests/kube/packages
    else
        cat tests/kube/packages
    fi
}

# The image is made of the release build, which is what is measured.
part_kube() {
    local why line with=("$python" -B tests/kube/run --)
    # What the machine can do is tried with these packages.
    [ "$(id -u)" != 0 ] || needs <(kube_packages)
    why=$(tests/kube/run --why 2>&1)
    [ -n "$why" ] || tests/lib/go >/dev/null || why="no Go >= 1.25 can be had"
    [ -z "$why" ] || { skip kube "$why"; return; }
    build_release flametree-distributor flametree-ingester flametree-querier flametree-compactor
    [ -x "${FLAMETREE_KUBE:-build/kube}/bin/kube" ] || say "building Kubernetes, or waiting for its build"
    tests/kube/run --build || { fail "Kubernetes cannot be built"; return; }
    export FLAMETREE_KUBE_FIGURES=$results/kube.figures FLAMETREE_KUBE_LOGS=$results/kube.logs
    rm -rf "$FLAMETREE_KUBE_FIGURES" "$FLAMETREE_KUBE_LOGS"
    suite kube tests/kube
    [ ! -r "$FLAMETREE_KUBE_FIGURES" ] || while read -r line; do say "$line"; done <"$FLAMETREE_KUBE_FIGURES"
}

# ---- quick

part_quick_unit() {
    need_server
    export FLAMETREE_THREADS=$top/tests/unit/THREADS FLAMETREE_TORTURE=40
    ctests quick_unit asan -L '^(unit|fuzz)$' -E '^walk'
    [[ ${FT_TEST_PROGRAMS:-walk} != *walk* ]] || one quick_walk short_walk
}

short_walk() {
    build/asan/walk 6 drawn 500 none >"$results/quick_walk.log" 2>&1 && return
    tail -n 8 "$results/quick_walk.log" >&2
    return 1
}

part_quick_conformance() { need_server; conform quick_conformance 'not multitenant and not limits'; }

part_quick_oracle() { need_server; suite quick_oracle tests/oracle/test_oracle.py tests/oracle/test_levels.py -n 2 -k 'brute_force and 0 and not cluster and not whatever'; }

part_stories() {
    local stories
    needs tests/s3/packages
    need_server
    unset FT_DRAWN  # each is named
    mapfile -t stories < <(grep -v '^#' tests/stories | grep .)
    suite stories "${stories[@]}" -n 2
}

# ---- nightly

# Of a machine that is new, the part tidy has looked at some files only.
part_tidy_all() { unset FT_DRAWN; part_tidy; }

part_long() {
    need_server
    export ASAN_OPTIONS=$ASAN_OPTIONS$stacks
    FLAMETREE_NIGHTLY=1 suite long tests/system/test_kill_points.py -n 2
    FLAMETREE_NIGHTLY=1 suite long-cases tests/system -m 'each_value or drawn' -n 2
    FLAMETREE_NIGHTLY=1 suite long-conservation tests/conservation -n 2
    FAULTS_ROUNDS=1 suite long-faults tests/system/test_faults.py -k one_fault_after_the_other
    build_release
    FLAMETREE_NIGHTLY=1 FLAMETREE_BIN=$top/build/release suite long-resources tests/system/test_overload.py tests/system/test_budget.py
    needs tests/install/packages
    build_release flametree-distributor flametree-ingester flametree-querier flametree-compactor
    FLAMETREE_NIGHTLY=1 suite long-install tests/install/test_release.py tests/install/test_image.py -k 'another_folder or dockerfile_builds'
}

# The same suites on each kind of store. What else tests/system has looks at the files of a directory, or at no store.
part_stores() {
    needs tests/s3/packages
    need_server
    export FLAMETREE_NIGHTLY=1
    local with=() kind topology
    suite stores-s3 tests/s3 -n 2
    suite stores-local-year tests/oracle/test_year.py -n 2 -rP
    for kind in radosgw versitygw; do
        behind $kind
        suite "stores-$kind" tests/oracle "${on_any_store[@]}" -n 2 -rP -k 'not test_compactor or killed'
        for topology in '' --cluster; do
            conform "stores-$kind-conformance$topology" 'not multitenant and not limits' $topology
            conform "stores-$kind-conformance-levels$topology" 'not multitenant and not limits' --levels $topology
        done
        FLAMETREE_TEST_DNS=1 FLAMETREE_INGESTER_LOG=object suite "stores-$kind-compat" tests/compat -k cluster
        one "stores-$kind-walk" walk_on_bucket "stores-$kind-walk"
    done
    grep -h '^year: ' "$results"/stores-*.log
}

on_any_store=(tests/system/test_kill_points.py tests/system/test_compactor.py)

# Mistakes that are made on purpose are found in it as well.
walk_on_bucket() {  # LOG
    # shellcheck disable=SC2016  # what is set in there
    "${with[@]}" bash -c 'AWS_ENDPOINT_URL_S3=$FLAMETREE_TEST_S3 AWS_ACCESS_KEY_ID=AKTEST AWS_SECRET_ACCESS_KEY=secretkey \
        FLAMETREE_WALK_STORE=s3://flametree-test/walk build/asan/walk "${STORE_WALKS:-50}"' >"$results/$1.log" 2>&1
    local status=$?
    say "$1: $(grep -v '^ts=' "$results/$1.log" | tail -n 3)"
    return $status
}

# Random walks of the whole protocol (tests/walk); tests/run unit has made 50.
part_walk() {
    need_server
    if build/asan/walk "${WALKS:-1000}" >"$results/walk.log" 2>&1; then
        count 1 0 0
    else
        count 0 1 0
    fi
    say "walk: $(tail -n 8 "$results/walk.log")"
}

fuzz_seconds=${FUZZ_SECONDS:-600}
part_fuzz() {
    build fuzz all
    local target name
    for target in build/fuzz/fuzz.*; do
        [ -x "$target" ] && [ -f "$target" ] || continue
        name=${target##*/fuzz.}
        mkdir -p "build/fuzz/corpus/$name"
        if "$target" -max_total_time="$fuzz_seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$results/fuzz.$name." \
            "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"$results/fuzz.$name.log" 2>&1; then
            count 1 0 0
            say "fuzz $name: $(grep -o 'stat::number_of_executed_units: *[0-9]*' "$results/fuzz.$name.log" | grep -o '[0-9]*$') runs, clean"
        else
            fail "fuzz $name"
            tail -n 30 "$results/fuzz.$name.log" >&2
        fi
    done
}

# The part unit fails a spread of allocations and calls (tests/lib/torture.h); here each one fails, alone and with all after it.
part_torture() {
    need_server
    local test name
    for test in build/asan/unit.*.torture*; do
        name=${test##*/}
        if FLAMETREE_TORTURE=all "$test" >"$results/$name.log" 2>&1; then
            count 1 0 0
        else
            fail "$name"
            tail -n 30 "$results/$name.log" >&2
        fi
    done
}

# Without FLAMETREE_THREADS all tests run.
part_races() { build tsan all; ctests races tsan -L '^unit$'; }

part_valgrind() {
    needs <(echo valgrind)
    build debug all
    local test
    for test in build/debug/unit.*; do
        [ -x "$test" ] && [ -f "$test" ] || continue
        one "valgrind ${test##*/}" valgrind -q --error-exitcode=99 --leak-check=full "$test" >"$results/${test##*/}.valgrind" 2>&1
    done
}

part_analyzer() {
    # gcc 12 takes a pointer that memcpy filled for uninitialised
    cmake -S . -B build/analyzer -G Ninja -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS=-fanalyzer -Wno-analyzer-use-of-uninitialized-value" >/dev/null &&
        cmake --build build/analyzer --target flametree -- -k 0 >"$results/analyzer.log" 2>&1
    local status=$?
    [ $status = 0 ] || grep -E 'error:|warning:' "$results/analyzer.log" | sort -u | head -n 40 >&2
    one analyzer [ $status = 0 ]
}

# What found each mistake the last time finds it still, and what was missed is looked for anew.
part_mistakes() {
    local line
    tests/mistakes/run --again --until nightly >"$results/mistakes.log" 2>&1
    while read -r line; do
        case $line in
        *': '*' s)') if [[ $line == *' nothing: '* ]]; then fail "mistake not found: ${line%% *}"; else count 1 0 0; fi ;;
        esac
    done <"$results/mistakes.log"
    [ $((passed + failed)) -gt 0 ] || fail "mistakes: $(tail -n 1 "$results/mistakes.log")"
}

part_bare() {
    [ "$(id -u)" = 0 ] || { skip bare "debootstrap takes root"; return; }
    needs <(echo debootstrap)
    if tests/lib/bare >"$results/bare.log" 2>&1; then
        count 1 0 0
    else
        fail "tests/run on a bare Debian; its log is build/results/bare.log"
    fi
    say "bare: $(tail -n 1 "$results/bare.log")"
}
