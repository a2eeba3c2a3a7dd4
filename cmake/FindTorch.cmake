# libtorch 2.13.0: from CMAKE_PREFIX_PATH, or from the Python package `torch` if that is installed.
find_package(Torch 2.13 QUIET)
if(NOT Torch_FOUND)
  find_program(TENON_PYTHON_PROGRAM NAMES python3 python)
  execute_process(COMMAND ${TENON_PYTHON_PROGRAM} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE TENON_TORCH_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND CMAKE_PREFIX_PATH "${TENON_TORCH_PREFIX}")
  find_package(Torch REQUIRED)
endif()
if(NOT Torch_VERSION MATCHES "^2\\.13\\.")
  message(FATAL_ERROR "Tenon needs libtorch 2.13, found ${Torch_VERSION}")
endif()
