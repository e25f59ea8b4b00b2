# Tests.cmake - tests/unit/<room>/<file>_test.c and tests/fuzz/<decoder>_fuzz.c, one program each.
# A unit test links the room or service that its folder names; a fuzz target links all rooms, the distributor, the querier and the compactor.
find_library(CMOCKA cmocka)
if(NOT CMOCKA)
    message(STATUS "cmocka is not installed: no unit tests in this build")
    return()
endif()

# What torture tests link: tests/lib/torture.c, and its table of calls wrapped by the linker.
set(torture_table ${PROJECT_SOURCE_DIR}/tests/lib/torture_calls.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torture_table})
file(STRINGS ${torture_table} rows REGEX "^CALL\\(")
add_library(torture OBJECT EXCLUDE_FROM_ALL tests/lib/torture.c)
set_target_properties(torture PROPERTIES FT_TEST ON)
target_include_directories(torture PRIVATE tests)
target_link_libraries(torture PRIVATE ft_flags PkgConfig::libcurl PkgConfig::libuv PkgConfig::libnghttp2 PkgConfig::openssl)
set(torture_options -Wl,--wrap=open -Wl,--wrap=fcntl -Wl,--wrap=fsync -Wl,--wrap=curl_easy_setopt
    -Wl,--wrap=nghttp2_session_server_new2)  # written out in torture.c
foreach(row IN LISTS rows)
    string(REGEX REPLACE "^CALL\\([^,]*, ([A-Za-z0-9_]+),.*" "\\1" call ${row})
    list(APPEND torture_options -Wl,--wrap=${call})
endforeach()

# A store in memory; taken by the tests that use it. Its calls into the store are found in the room's libraries.
add_library(memstore STATIC EXCLUDE_FROM_ALL tests/lib/memstore.c)
set_target_properties(memstore PROPERTIES FT_TEST ON)
target_include_directories(memstore PRIVATE tests)
target_link_libraries(memstore PRIVATE ft_flags)

file(GLOB_RECURSE units CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests/unit tests/unit/*_test.c)
foreach(unit IN LISTS units)
    string(REGEX REPLACE "_test\\.c$" "" name ${unit})
    string(REGEX REPLACE "/.*$" "" room ${name})
    string(REPLACE "/" "." target ${name})
    if(NOT TARGET ft_${room})
        message(FATAL_ERROR "tests/unit/${unit}: there is no room or service '${room}'")
    endif()
    add_executable(unit.${target} tests/unit/${unit})
    target_include_directories(unit.${target} PRIVATE tests)
    set_target_properties(unit.${target} PROPERTIES FT_TEST ON)
    target_link_libraries(unit.${target} PRIVATE $<LINK_ONLY:memstore> ft_${room} ${CMOCKA})
    if(name MATCHES "/torture(_[a-z]+)?$")
        target_sources(unit.${target} PRIVATE $<TARGET_OBJECTS:torture>)
        target_link_options(unit.${target} PRIVATE ${torture_options})
    endif()
    add_test(NAME unit.${target} COMMAND unit.${target})
    # The time is against what hangs: beside thirty other programs a minute of work takes a quarter of an hour.
    set_tests_properties(unit.${target} PROPERTIES TIMEOUT 3600 LABELS unit)
endforeach()

file(GLOB fuzzers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests/fuzz tests/fuzz/*_fuzz.c)
foreach(fuzzer IN LISTS fuzzers)
    string(REGEX REPLACE "_fuzz\\.c$" "" name ${fuzzer})
    add_executable(fuzz.${name} tests/fuzz/${fuzzer} tests/fuzz/bound.c)
    target_link_options(fuzz.${name} PRIVATE -Wl,--wrap=LLVMFuzzerTestOneInput)
    target_include_directories(fuzz.${name} PRIVATE tests)
    set_target_properties(fuzz.${name} PROPERTIES FT_TEST ON)
    target_link_libraries(fuzz.${name} PRIVATE ft_service ft_block ft_manifest $<TARGET_NAME_IF_EXISTS:ft_distributor> $<TARGET_NAME_IF_EXISTS:ft_querier>
        $<TARGET_NAME_IF_EXISTS:ft_compactor> $<TARGET_NAME_IF_EXISTS:ft_cli>)
    if(FT_FUZZ)
        target_compile_options(fuzz.${name} PRIVATE -fsanitize=fuzzer)
        target_link_options(fuzz.${name} PRIVATE -fsanitize=fuzzer)
    else()
        target_sources(fuzz.${name} PRIVATE tests/fuzz/replay.c)
        add_test(NAME fuzz.${name} COMMAND fuzz.${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
        set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT 3600 LABELS fuzz)
    endif()
endforeach()

# Random walks of the real services over a store in memory (tests/walk/main.c).
if(TARGET ft_ingester AND TARGET ft_querier AND TARGET ft_compactor)
    file(GLOB walk CONFIGURE_DEPENDS tests/walk/*.c)
    add_executable(walk ${walk})
    target_include_directories(walk PRIVATE tests)
    set_target_properties(walk PROPERTIES FT_TEST ON)
    target_link_libraries(walk PRIVATE $<LINK_ONLY:memstore> ft_ingester ft_querier ft_compactor ${CMOCKA})
    if(FT_SANITIZE MATCHES thread)
        add_test(NAME walk COMMAND walk 20 4711 700 none)  # mistakes are found without, and sooner
    else()
        add_test(NAME walk COMMAND walk 50 4711)
    endif()
    set_tests_properties(walk PROPERTIES TIMEOUT 3600 LABELS unit COST 1000)  # the longest, so the first
endif()

# Measurements of single parts, made on demand (tests/bench/run).
file(GLOB benches CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests/bench tests/bench/*.c)
foreach(bench IN LISTS benches)
    string(REGEX REPLACE "\\.c$" "" name ${bench})
    add_executable(bench.${name} EXCLUDE_FROM_ALL tests/bench/${bench})
    set_target_properties(bench.${name} PROPERTIES FT_TEST ON)
    target_include_directories(bench.${name} PRIVATE tests)
    target_link_libraries(bench.${name} PRIVATE $<LINK_ONLY:memstore> ft_distributor ft_ingester ft_compactor ft_block ${CMOCKA})
endforeach()

# Recordings of other profilers, which live beside the repository or not at all (then: skipped).
add_executable(corpus_dump tests/corpus/dump.c)
target_link_libraries(corpus_dump PRIVATE ft_decode)
find_program(PYTHON3 python3)
if(PYTHON3)
    add_test(NAME corpus.decode COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/corpus/check.py $<TARGET_FILE:corpus_dump>)
    set_tests_properties(corpus.decode PROPERTIES TIMEOUT 1800 LABELS corpus SKIP_RETURN_CODE 77)
endif()
