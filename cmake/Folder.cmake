# tenon_folder(NAME base DEPENDS a b LIBS c TORCH): one static library for one folder of src/. LIBS are
# seen by that folder alone; NESTED takes the folders in it too.
# The edges given here are the same as in tools/layers.txt; tools/check compares them.
function(tenon_folder)
  cmake_parse_arguments(F "TORCH;NESTED" "NAME" "DEPENDS;LIBS" ${ARGN})
  string(REPLACE "/" "_" target "tenon_${F_NAME}")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${F_NAME}/*.cpp)
  if(F_NESTED)
    file(GLOB nested CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${F_NAME}/*/*.cpp)
  endif()
  add_library(${target} STATIC ${sources} ${nested})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:include>)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
  foreach(dependency ${F_DEPENDS})
    string(REPLACE "/" "_" dependency_target "tenon_${dependency}")
    target_link_libraries(${target} PUBLIC ${dependency_target})
  endforeach()
  foreach(library ${F_LIBS})
    target_link_libraries(${target} PRIVATE ${library})
  endforeach()
  if(F_TORCH)
    target_link_libraries(${target} PUBLIC torch)
    target_include_directories(${target} SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
    # One precompiled header of 400 MB for all folders. Every header of ATen/ops includes ATen/Context.h: 4 s of parsing.
    if(F_NAME STREQUAL bridge)
      target_precompile_headers(${target} PRIVATE <ATen/Context.h> <ATen/TensorOperators.h> <ATen/core/Tensor.h>
        <ATen/core/dispatch/Dispatcher.h> <ATen/core/grad_mode.h> <ATen/core/ivalue.h> <string> <vector>)
    else()
      target_precompile_headers(${target} REUSE_FROM tenon_bridge)
    endif()
  endif()
  # Most of the time goes to headers.
  if(TENON_UNITY AND NOT F_NAME MATCHES "bridge|runtime")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # Both are wrong of included source files and of large files with inlined strings.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-stringop-overflow)
  endif()
  set_property(GLOBAL APPEND PROPERTY TENON_FOLDERS ${target})
endfunction()
