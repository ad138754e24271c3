# Every header must compile alone: one generated file per header, compiled and never linked.
file(GLOB_RECURSE graft_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/src/*.h)
if(NOT GRAFT_CLUSTER)
  list(FILTER graft_headers EXCLUDE REGEX "^(rpc|etcd|cluster)/")
endif()
# It includes CUDA's headers, which a machine without the toolkit lacks.
if(NOT GRAFT_HAS_CUDA)
  list(REMOVE_ITEM graft_headers tensor/cuda_check.h)
endif()
set(header_checks)
foreach(header ${graft_headers})
  string(REPLACE "/" "_" stem ${header})
  set(check ${CMAKE_BINARY_DIR}/headers/${stem}.cc)
  file(CONFIGURE OUTPUT ${check} CONTENT "#include \"${header}\"  // NOLINT\n")
  list(APPEND header_checks ${check})
endforeach()
add_library(header_checks OBJECT ${header_checks})
target_link_libraries(header_checks PRIVATE graft_options prometheus-cpp::core spdlog::spdlog
  fmt::fmt nlohmann_json::nlohmann_json GTest::gtest)
target_compile_options(header_checks PRIVATE -O0 -g0)
if(GRAFT_CLUSTER)
  target_link_libraries(header_checks PRIVATE graft_rpc)
endif()
