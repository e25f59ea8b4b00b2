# Metrics.cmake - metrics.h and metrics.c of each room and service that has a metrics.def, made into the build tree from
# common/sys/metric_rows.{h,c}.in: #include "ROOM/metrics.h" declares a `struct metric ROOM_<id>` for each row.
target_include_directories(ft_flags INTERFACE ${PROJECT_BINARY_DIR}/metrics)
function(add_metrics target METRICS_ROOM folder)
    file(GLOB rows CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/metrics.def)
    if(NOT rows)
        return()
    endif()
    set(out ${PROJECT_BINARY_DIR}/metrics/${METRICS_ROOM})
    foreach(kind IN ITEMS h c)
        configure_file(${PROJECT_SOURCE_DIR}/common/sys/metric_rows.${kind}.in ${out}/metrics.${kind} @ONLY)
    endforeach()
    target_sources(${target} PRIVATE ${out}/metrics.c)
endfunction()
