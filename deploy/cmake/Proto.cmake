# Proto.cmake - protobuf-c code of everything under proto/, generated into the build tree.
# A file proto/a/v1/b.proto becomes #include "a/v1/b.pb-c.h".
find_program(PROTOC protoc REQUIRED)
find_program(PROTOC_C protoc-gen-c REQUIRED)
file(GLOB_RECURSE protos CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/proto proto/*.proto)
set(proto_out ${PROJECT_BINARY_DIR}/proto)
file(MAKE_DIRECTORY ${proto_out})
set(generated)
foreach(file IN LISTS protos)
    string(REGEX REPLACE "\\.proto$" ".pb-c" stem ${file})
    add_custom_command(OUTPUT ${proto_out}/${stem}.c ${proto_out}/${stem}.h
        COMMAND ${PROTOC} --plugin=protoc-gen-c=${PROTOC_C} --c_out=${proto_out} -I ${PROJECT_SOURCE_DIR}/proto ${file}
        DEPENDS ${PROJECT_SOURCE_DIR}/proto/${file} VERBATIM)
    list(APPEND generated ${proto_out}/${stem}.c)
endforeach()
add_library(ft_proto STATIC ${generated})
set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "-w")
target_include_directories(ft_proto SYSTEM PUBLIC ${proto_out})
target_link_libraries(ft_proto PUBLIC ft_flags PkgConfig::libprotobuf_c)
