# Libraries.cmake - which of Debian's libraries each room uses. A room that is not named uses only libc.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(lib IN ITEMS libuv libnghttp2 openssl libcrypto libcurl libprotobuf-c zlib libzstd liblz4 libdeflate libxxhash re2 yaml-0.1 liburing
                     libdw libelf expat libcares)
    string(MAKE_C_IDENTIFIER ${lib} id)
    pkg_check_modules(${id} REQUIRED IMPORTED_TARGET ${lib})
endforeach()
find_library(ROCKSDB rocksdb REQUIRED)
find_library(IBERTY iberty REQUIRED)

set(FT_LIBS_base PkgConfig::libxxhash PkgConfig::re2 Threads::Threads)
set(FT_LIBS_codec PkgConfig::libprotobuf_c PkgConfig::zlib PkgConfig::libzstd PkgConfig::liblz4 PkgConfig::libdeflate m)
set(FT_LIBS_model PkgConfig::libcrypto ${IBERTY})  # MD5 of relabelling rules; demangling
set(FT_LIBS_sys PkgConfig::libdw PkgConfig::libelf)
set(FT_LIBS_loop PkgConfig::libuv)
set(FT_LIBS_store PkgConfig::liburing)
set(FT_LIBS_net PkgConfig::libnghttp2 PkgConfig::openssl PkgConfig::libcurl)
set(FT_LIBS_cluster PkgConfig::libcares)
set(FT_LIBS_s3 PkgConfig::libcrypto PkgConfig::expat)
set(FT_LIBS_azure PkgConfig::libcrypto)
set(FT_LIBS_service PkgConfig::yaml_0_1)
set(FT_LIBS_ingester ${ROCKSDB})
set(FT_LIBS_querier ${ROCKSDB})  # its cache on disk
