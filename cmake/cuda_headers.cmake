# SPDX-License-Identifier: Apache-2.0
# CUDA headers: those of the machine's toolkit, else of NVIDIA's pip wheels in .venv, else none.
# Nothing of CUDA is ever linked.
find_path(CUDA_HEADERS cuda_runtime_api.h
  HINTS ${CUDAToolkit_ROOT} $ENV{CUDA_HOME} /usr/local/cuda
        ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cuda_runtime
        ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13
  PATH_SUFFIXES include)
if(CUDA_HEADERS)
  message(STATUS "CUDA headers: ${CUDA_HEADERS}")
else()
  message(STATUS "CUDA headers: none found; building without GPU hooks")
endif()
