# SPDX-License-Identifier: Apache-2.0
set(FLARE_PYTHON_SOURCES
  python/api_list.cc
  python/attach.cc
  python/gc_callback.cc
  python/import_watch.cc
  python/optimizer_steps.cc
  python/python_api.cc
  python/subclasses.cc
  python/targets.cc
  python/tensor_calibration.cc
  python/uncaught_exception.cc
  python/wrapper.cc
  python/wrapper_type.cc
)
