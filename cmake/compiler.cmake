# SPDX-License-Identifier: Apache-2.0
# What every target is built with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
add_compile_options(-Wall -Wextra -Werror -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
include_directories(${CMAKE_SOURCE_DIR})

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# libflare itself is never instrumented: it is preloaded into programs that are not. Its sources are
# tested under sanitizers as part of the test programs.
if(FLARE_SANITIZE)
  set(FLARE_SANITIZE_FLAGS -fsanitize=${FLARE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_options(${FLARE_SANITIZE_FLAGS})
  add_link_options(${FLARE_SANITIZE_FLAGS})
endif()
