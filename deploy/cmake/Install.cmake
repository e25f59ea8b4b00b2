# SPDX-License-Identifier: Apache-2.0
# What is installed, and the Debian packages of it (deploy/debian/build): flametree-common has the user, the documents and the
# program `flametree`, which is the command line too; flametree runs it as a service; each role has a package of its own.
include(GNUInstallDirs)

set(FT_ROLES flametree-distributor flametree-ingester flametree-querier flametree-compactor)
set(share "${CMAKE_INSTALL_DATADIR}")
set(made "${CMAKE_BINARY_DIR}/install")
file(MAKE_DIRECTORY "${made}")

# The time in all packages is that of the commit, so that they are the same whenever they are made.
set(epoch "$ENV{SOURCE_DATE_EPOCH}")
if(epoch STREQUAL "" AND Git_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} log -1 --format=%ct WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(epoch STREQUAL "")
    set(epoch 0)
endif()
set(ENV{SOURCE_DATE_EPOCH} ${epoch})
string(TIMESTAMP FT_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE "${made}/cpack.cmake" "set(ENV{SOURCE_DATE_EPOCH} ${epoch})\n")

# made NAME COMMAND...: a file in ${made} that is what a command prints.
set(packaged)
macro(made name depends)
    add_custom_command(OUTPUT "${made}/${name}" DEPENDS ${depends} COMMAND ${ARGN} > "${made}/${name}" VERBATIM)
    list(APPEND packaged "${made}/${name}")
endmacro()

# gzip -n: no name and no time in it.
made(flametree.1.gz "${CMAKE_SOURCE_DIR}/deploy/cli/flametree.1" gzip -9nc "${CMAKE_SOURCE_DIR}/deploy/cli/flametree.1")
made(changelog.gz "${CMAKE_SOURCE_DIR}/CHANGELOG.md" gzip -9nc "${CMAKE_SOURCE_DIR}/CHANGELOG.md")
foreach(shell bash zsh fish)
    made(completion.${shell} flametree flametree completion ${shell})
endforeach()
# Without debug information, but with names of functions: the program profiles itself, and perf can.
foreach(program flametree ${FT_ROLES})
    add_custom_command(OUTPUT "${made}/bin/${program}" DEPENDS ${program}
        COMMAND ${CMAKE_COMMAND} -E make_directory "${made}/bin"
        COMMAND ${CMAKE_STRIP} --strip-debug -o "${made}/bin/${program}" $<TARGET_FILE:${program}> VERBATIM)
    list(APPEND packaged "${made}/bin/${program}")
endforeach()
# The same manual for each role.
foreach(role ${FT_ROLES})
    configure_file(deploy/debian/role.1.in "${made}/${role}.1" @ONLY)
    made(${role}.1.gz "${made}/${role}.1" gzip -9nc "${made}/${role}.1")
endforeach()
foreach(SERVICE flametree-common flametree ${FT_ROLES})
    configure_file(deploy/debian/changelog.in "${made}/${SERVICE}.changelog" @ONLY)
    made(${SERVICE}.changelog.gz "${made}/${SERVICE}.changelog" gzip -9nc "${made}/${SERVICE}.changelog")
    install(FILES "${made}/${SERVICE}.changelog.gz" DESTINATION "${share}/doc/${SERVICE}" RENAME changelog.Debian.gz COMPONENT ${SERVICE})
    install(FILES deploy/debian/copyright DESTINATION "${share}/doc/${SERVICE}" COMPONENT ${SERVICE})
endforeach()
foreach(package flametree-common flametree-querier)  # whose programs have the page
    install(FILES querier/ui/dist/licenses.txt DESTINATION "${share}/doc/${package}" RENAME page-licenses.txt COMPONENT ${package})
endforeach()
add_custom_target(packaged DEPENDS ${packaged})

install(PROGRAMS "${made}/bin/flametree" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT flametree-common)
install(FILES deploy/debian/flametree.sysusers DESTINATION lib/sysusers.d RENAME flametree.conf COMPONENT flametree-common)
install(DIRECTORY docs/ DESTINATION "${share}/doc/flametree-common" COMPONENT flametree-common PATTERN "images" EXCLUDE)
install(FILES "${made}/changelog.gz" DESTINATION "${share}/doc/flametree-common" COMPONENT flametree-common)
install(FILES deploy/examples/overrides.yaml DESTINATION "${share}/doc/flametree-common/examples" COMPONENT flametree-common)
install(FILES "${made}/flametree.1.gz" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT flametree-common)
install(FILES "${made}/completion.bash" DESTINATION "${share}/bash-completion/completions" RENAME flametree COMPONENT flametree-common)
install(FILES "${made}/completion.zsh" DESTINATION "${share}/zsh/vendor-completions" RENAME _flametree COMPONENT flametree-common)
install(FILES "${made}/completion.fish" DESTINATION "${share}/fish/vendor_completions.d" RENAME flametree.fish COMPONENT flametree-common)

set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE "${made}/cpack.cmake")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_NAME flametree)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "Flametree maintainers <maintainers@flametree.invalid>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL flametree-common flametree ${FT_ROLES})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE flametree)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_STRIP_FILES OFF)

set(scripts "${made}/scripts")
set(executable FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
configure_file(deploy/debian/postinst.common "${scripts}/flametree-common/postinst" COPYONLY ${executable})
set(CPACK_DEBIAN_FLAMETREE-COMMON_PACKAGE_NAME flametree-common)
set(CPACK_DEBIAN_FLAMETREE-COMMON_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers, ca-certificates")
set(CPACK_DEBIAN_FLAMETREE-COMMON_PACKAGE_CONTROL_EXTRA "${scripts}/flametree-common/postinst")

foreach(SERVICE flametree ${FT_ROLES})
    string(TOUPPER "${SERVICE}" NAME)
    string(REPLACE "flametree-" "" role "${SERVICE}")
    # A role waits for settings that name its store and the other nodes; the one process starts with what is in its package.
    set(START no)
    if(SERVICE STREQUAL "flametree")
        set(START yes)
    else()
        install(PROGRAMS "${made}/bin/${SERVICE}" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${SERVICE})
        install(FILES "${made}/${SERVICE}.1.gz" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT ${SERVICE})
    endif()
    install(FILES deploy/systemd/${SERVICE}.service DESTINATION lib/systemd/system COMPONENT ${SERVICE})
    install(FILES deploy/debian/${role}.yaml DESTINATION /etc/flametree COMPONENT ${SERVICE})
    foreach(script postinst prerm postrm)
        configure_file(deploy/debian/${script}.service.in "${scripts}/${SERVICE}/${script}" @ONLY ${executable})
    endforeach()
    file(WRITE "${scripts}/${SERVICE}/conffiles" "/etc/flametree/${role}.yaml\n")
    set(CPACK_DEBIAN_${NAME}_PACKAGE_NAME ${SERVICE})
    set(CPACK_DEBIAN_${NAME}_PACKAGE_DEPENDS "flametree-common (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), init-system-helpers (>= 1.54)")
    set(CPACK_DEBIAN_${NAME}_PACKAGE_CONTROL_EXTRA
        "${scripts}/${SERVICE}/postinst;${scripts}/${SERVICE}/prerm;${scripts}/${SERVICE}/postrm;${scripts}/${SERVICE}/conffiles")
endforeach()

# Names of functions stay in the programs, as above; and there is no bug of Debian's that the first version closes.
foreach(package flametree-common flametree ${FT_ROLES})
    string(REPLACE "flametree-common" "flametree" program "${package}")
    set(overrides "${package}: initial-upload-closes-no-bugs *\n")
    if(NOT package STREQUAL "flametree")
        string(APPEND overrides "${package}: unstripped-binary-or-object [usr/bin/${program}]\n")
    endif()
    file(WRITE "${made}/${package}.lintian" "${overrides}")
    install(FILES "${made}/${package}.lintian" DESTINATION "${share}/lintian/overrides" RENAME ${package} COMPONENT ${package})
endforeach()

# The first line is the synopsis.
function(describe package synopsis text)
    string(JOIN "\n" lines "continuous profiling: ${synopsis}"
        "Flametree is a continuous-profiling store: agents push profiles around the"
        "clock, and it answers where the time went, for any label set and any range"
        "of time, with flame graphs, differences and series. It speaks the protocols"
        "of Grafana Pyroscope." "." ${text} ${ARGN})
    string(TOUPPER "${package}" name)
    set(CPACK_COMPONENT_${name}_DESCRIPTION "${lines}" PARENT_SCOPE)
endfunction()
describe(flametree-common "command line, user and documents"
    "This package has the program flametree, which is the client and can be the"
    "server, and the user that servers run as.")
describe(flametree "server in one process"
    "This package starts all services in one process, on the loopback, with data"
    "in /var/lib/flametree.")
describe(flametree-distributor "distributor of a cluster"
    "This package has the distributor, which takes pushes.")
describe(flametree-ingester "ingester of a cluster"
    "This package has the ingester, which keeps the newest profiles.")
describe(flametree-querier "querier of a cluster"
    "This package has the querier, which answers queries and has the page.")
describe(flametree-compactor "compactor of a cluster"
    "This package has the compactor, which merges, expires and deletes what is"
    "stored.")
include(CPack)
