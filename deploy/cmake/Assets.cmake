# Assets.cmake - the built page (querier/ui/dist), compiled into the querier as querier/request/assets.h describes.
# Included, it adds the sources to ft_querier. Run as a script while building, it writes them: the bytes through
# .incbin, because large C arrays compile slowly, and a table in C. Needs no Node: dist is part of the repository.
if(NOT CMAKE_SCRIPT_MODE_FILE)
    find_program(GZIP gzip REQUIRED)
    set(dist ${PROJECT_SOURCE_DIR}/querier/ui/dist)
    set(out ${PROJECT_BINARY_DIR}/assets)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${dist}/*)  # a new build of the page has new names
    add_custom_command(OUTPUT ${out}/bytes.S ${out}/table.c
        COMMAND ${CMAKE_COMMAND} -DDIST=${dist} -DOUT=${out} -DGZIP=${GZIP} -P ${CMAKE_CURRENT_LIST_FILE}
        DEPENDS ${files} ${CMAKE_CURRENT_LIST_FILE} COMMENT "Embedding the page" VERBATIM)
    set_source_files_properties(${out}/bytes.S PROPERTIES OBJECT_DEPENDS "${files}")
    target_sources(ft_querier PRIVATE ${out}/table.c ${out}/bytes.S)
    return()
endif()

cmake_minimum_required(VERSION 3.25)
set(type_html "text/html; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_txt "text/plain; charset=utf-8")
set(type_json "application/json")
set(type_svg "image/svg+xml")
set(type_woff2 "font/woff2")
set(packed woff2)  # formats that gzip does not make smaller

file(GLOB_RECURSE files RELATIVE ${DIST} ${DIST}/*)
list(SORT files)
if(NOT "index.html" IN_LIST files)
    message(FATAL_ERROR "${DIST} has no index.html: build the page as querier/ui/README.md says")
endif()
file(MAKE_DIRECTORY ${OUT})

set(asm "    .section .note.GNU-stack, \"\", %progbits\n    .section .rodata\n")
set(declarations "")
set(rows "")
set(count 0)
function(embed symbol file etag)  # the etag makes the text change with the content
    set(asm "${asm}
    .balign 16
    .globl ${symbol}
    .hidden ${symbol}
    .type ${symbol}, %object
${symbol}: /* ${etag} */
    .incbin \"${file}\"
    .size ${symbol}, . - ${symbol}
" PARENT_SCOPE)
    set(declarations "${declarations}extern const uint8_t ${symbol}[];\n" PARENT_SCOPE)
endfunction()

foreach(file IN LISTS files)
    string(REGEX MATCH "[^.]*$" extension "${file}")
    if(NOT DEFINED type_${extension} OR NOT file MATCHES "^[A-Za-z0-9_./-]+$")
        message(FATAL_ERROR "${DIST}/${file}: Assets.cmake does not know how to serve a file of this name")
    endif()
    set(path "/${file}")
    if(file STREQUAL "index.html")
        set(path "/")
    endif()
    set(immutable false)
    if(file MATCHES "^assets/")
        set(immutable true)
    endif()
    file(SHA256 ${DIST}/${file} etag)
    string(SUBSTRING ${etag} 0 16 etag)
    file(SIZE ${DIST}/${file} size)
    embed(asset_${count} ${DIST}/${file} ${etag})
    set(gzip NULL)
    set(gzip_size 0)
    if(NOT extension IN_LIST packed)
        set(gzip asset_${count}_gzip)
        execute_process(COMMAND ${GZIP} -9nc ${DIST}/${file} OUTPUT_FILE ${OUT}/${count}.gz COMMAND_ERROR_IS_FATAL ANY)
        file(SIZE ${OUT}/${count}.gz gzip_size)
        embed(${gzip} ${OUT}/${count}.gz ${etag})
    endif()
    string(APPEND rows "    {\"${path}\", \"${type_${extension}}\", \"\\\"${etag}\\\"\", "
        "asset_${count}, ${size}, ${gzip}, ${gzip_size}, ${immutable}},\n")
    math(EXPR count "${count} + 1")
endforeach()

file(WRITE ${OUT}/bytes.S "${asm}")
file(WRITE ${OUT}/table.c "#include \"querier/request/assets.h\"

${declarations}
const struct asset asset_table[] = {
${rows}};
const size_t asset_count = ${count};
")
