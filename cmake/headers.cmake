# Every header must compile alone: one generated file per header, compiled and never linked.
file(GLOB_RECURSE graft_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/src/*.h)
# What needs gRPC's headers, or ours of folders that need them.
if(NOT GRAFT_CLUSTER)
  list(FILTER graft_headers EXCLUDE REGEX
    "^(rpc|etcd|cluster|hostile)/|^cli/(cluster_options|cluster_loader)\\.h$")
endif()
# It includes CUDA's headers, which a machine without the toolkit lacks. Presets without the backend check it, too.
find_path(graft_cuda_headers cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
if(NOT graft_cuda_headers)
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
if(graft_cuda_headers)
  target_include_directories(header_checks SYSTEM PRIVATE ${graft_cuda_headers})
endif()
if(GRAFT_CLUSTER)
  target_link_libraries(header_checks PRIVATE graft_rpc)
endif()
