# graft_library(NAME SOURCES ... DEPS ...): a static library of one folder of src/.
function(graft_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC graft_options ${ARG_DEPS})
endfunction()

# graft_test(NAME SOURCES ... DEPS ...): one GoogleTest program, registered with CTest under its label.
# Tests find the repository through GRAFT_SOURCE_DIR.
function(graft_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT GRAFT_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  # Against hangs alone: the longest takes two minutes, on a busy machine several times that.
  set_tests_properties(${name} PROPERTIES TIMEOUT 3000
    ENVIRONMENT "GRAFT_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
endfunction()

# graft_fuzz(NAME SOURCES ... DEPS ...): a libFuzzer program; exists under the fuzz preset (clang) only.
function(graft_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT GRAFT_BUILD_FUZZERS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_property(GLOBAL APPEND PROPERTY GRAFT_FUZZERS ${name})
endfunction()

# graft_op(TARGET op): adds op/op.cc, per instruction set a copy of op/op_cpu.cc, and every
# op/op_*.cu where the CUDA backend is built.
function(graft_op target op)
  target_sources(${target} PRIVATE ${op}/${op}.cc)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${op}/${op}_cpu.cc)
    graft_cpu_source(${target} ${op}/${op}_cpu.cc)
  endif()
  if(GRAFT_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${op}/${op}_*.cu ${op}/${op}_cuda.cc)
    target_sources(${target} PRIVATE ${cuda_sources})
  endif()
endfunction()

# graft_cpu_source(TARGET file): one copy of the file per instruction set, see kernels/common/cpu_isa.h.
# Kernels are optimised and NOT instrumented in sanitizer builds: instrumented unrolled loops take minutes
# to compile and crawl; their tests put sentinels around every output instead. gcc 12 takes the
# deliberately undefined operand inside its own AVX-512 intrinsics for an uninitialised variable. No
# contraction: a loop's body and its tail must round alike, so fused multiply-adds are written out.
function(graft_cpu_source target file)
  get_filename_component(stem ${file} NAME_WE)
  foreach(isa portable avx2 avx512)
    if(isa STREQUAL "avx2")
      set(flags -DGRAFT_ISA_AVX2 -mavx2 -mfma -mf16c)
    elseif(isa STREQUAL "avx512")
      set(flags -DGRAFT_ISA_AVX512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c)
    else()
      set(flags)
    endif()
    if(NOT isa STREQUAL "portable" AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
      continue()
    endif()
    set(copy ${target}_${stem}_${isa})
    add_library(${copy} OBJECT ${file})
    target_link_libraries(${copy} PRIVATE graft_options)
    target_compile_options(${copy} PRIVATE ${flags} -O3 -g0 -fno-sanitize=all -ffp-contract=off
      -Wno-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${copy}>)
  endforeach()
endfunction()
