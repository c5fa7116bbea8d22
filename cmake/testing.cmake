# SPDX-License-Identifier: Apache-2.0
# flare_cc_test(NAME foo_test SOURCES a.cc LIBS flare_x): a GoogleTest program, one ctest entry.
function(flare_cc_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  add_executable(${T_NAME} ${T_SOURCES})
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} GTest::gmock GTest::gtest_main)
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${T_NAME} COMMAND ${T_NAME})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${T_NAME} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS unit)
endfunction()

# flare_py_test(NAME foo FILE path LABEL faults TIMEOUT 300): a pytest file, one ctest entry. Runs
# alone: jobs of several ranks on a small machine must not disturb each other.
set(FLARE_TEST_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
    "Python with pytest and torch for the end-to-end tests")
function(flare_py_test)
  cmake_parse_arguments(T "" "NAME;FILE;LABEL;TIMEOUT" "ARGS" ${ARGN})
  add_test(NAME ${T_NAME}
           COMMAND ${FLARE_TEST_PYTHON} -m pytest -q -p no:cacheprovider ${T_FILE} ${T_ARGS}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${T_NAME} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS ${T_LABEL} RUN_SERIAL ON
                       ENVIRONMENT "FLARE_BUILD_DIR=${CMAKE_BINARY_DIR}")
endfunction()
