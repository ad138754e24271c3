# Every header must compile alone: one generated file per header, compiled and never linked.
file(GLOB_RECURSE graft_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/src/*.h)
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
