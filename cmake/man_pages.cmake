# SPDX-License-Identifier: Apache-2.0
# flare_man_page(target section description): <target>.<section> made from what the program prints for
# --help and --version, built with the rest and installed. Without help2man there are no man pages, and
# the configuration says so.
find_program(HELP2MAN help2man)
if(NOT HELP2MAN)
  message(STATUS "help2man not found: man pages are left out")
endif()

function(flare_man_page target section description)
  if(NOT HELP2MAN OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(page ${CMAKE_BINARY_DIR}/man/${target}.${section})
  # The defaults that --help shows must not be those of whoever builds.
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
    COMMAND ${CMAKE_COMMAND} -E env --unset=XDG_STATE_HOME --unset=FLARE_ENGINE HOME=/home/USER
            FLARE_DIR=/dev/shm/flare-UID
            ${HELP2MAN} --no-info --section ${section} --name ${description}
            --source "FLARE ${PROJECT_VERSION}" --output ${page} $<TARGET_FILE:${target}>
    DEPENDS ${target}
    VERBATIM)
  add_custom_target(man_${target} ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endfunction()
