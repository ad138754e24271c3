# graft_batches(OUT STEM files): files of a library or test program, compiled several at a time: what they
# include is read once a batch. Files are named from src/ on, so that a clone in another folder writes the
# same batches and finds them in ccache. GRAFT_BATCH=1 compiles each file by itself, as `make test-all` does.
set(GRAFT_BATCH 12 CACHE STRING "Source files compiled at a time")
function(graft_batches out stem)
  set(batches)
  set(text)
  set(count 0)
  list(LENGTH ARGN num_files)
  # As many batches as GRAFT_BATCH asks for, and those of one size.
  math(EXPR num_batches "(${num_files} + ${GRAFT_BATCH} - 1) / ${GRAFT_BATCH}")
  math(EXPR size "(${num_files} + ${num_batches} - 1) / ${num_batches}")
  if(size EQUAL 1)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(file ${ARGN})
    string(APPEND text "#include \"${folder}/${file}\"  // NOLINT\n")
    math(EXPR count "${count} + 1")
    math(EXPR rest "${count} % ${size}")
    if(rest EQUAL 0 OR count EQUAL num_files)
      list(LENGTH batches index)
      set(batch ${CMAKE_CURRENT_BINARY_DIR}/${stem}_${index}.cc)
      file(CONFIGURE OUTPUT ${batch} CONTENT "${text}" @ONLY)
      list(APPEND batches ${batch})
      set(text)
    endif()
  endforeach()
  set(${out} ${batches} PARENT_SCOPE)
endfunction()

# graft_library(NAME SOURCES ... [COLD_SOURCES ...] DEPS ...): a static library of one folder of src/.
# COLD_SOURCES: what runs at the start, for an adapter, or once a request, and never for a step, a token or
# a word. The release build optimises it less, which compiles in three quarters of the time.
function(graft_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;COLD_SOURCES;DEPS" ${ARGN})
  if(GRAFT_OPTIMISE_COLD AND ARG_COLD_SOURCES)
    graft_batches(cold_batches ${name}_cold ${ARG_COLD_SOURCES})
    set_source_files_properties(${cold_batches} PROPERTIES COMPILE_OPTIONS "${GRAFT_OPTIMISE_COLD}")
  else()
    set(cold_batches)
    list(APPEND ARG_SOURCES ${ARG_COLD_SOURCES})
  endif()
  set(batches)
  if(ARG_SOURCES)
    graft_batches(batches ${name} ${ARG_SOURCES})
  endif()
  list(APPEND batches ${cold_batches})
  add_library(${name} STATIC ${batches})
  target_link_libraries(${name} PUBLIC graft_options ${ARG_DEPS})
endfunction()

# graft_test(NAME [UNSANITIZED] [LONG] [SHARDS n] SOURCES ... DEPS ...): one GoogleTest program, registered with
# CTest, in SHARDS parts that run side by side. Tests find the repository through GRAFT_SOURCE_DIR.
# LONG: it runs for more than half a minute, so that it is started before the others.
# UNSANITIZED: the test's own code runs optimised and without sanitizers (but where GRAFT_SANITIZE_ALL is
# on), because it computes a lot; what it tests is built as ever.
function(graft_test name)
  cmake_parse_arguments(ARG "UNSANITIZED;LONG" "SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT GRAFT_BUILD_TESTS)
    return()
  endif()
  graft_batches(batches ${name} ${ARG_SOURCES})
  add_executable(${name} ${batches})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(ARG_UNSANITIZED AND NOT GRAFT_SANITIZE_ALL)
    set_target_properties(${name} PROPERTIES GRAFT_UNSANITIZED ON)
  else()
    set_target_properties(${name} PROPERTIES GRAFT_OPTIMISE "${GRAFT_OPTIMISE_TESTS}")
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last_shard "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last_shard})
    set(test ${name})
    if(ARG_SHARDS GREATER 1)
      set(test ${name}.${shard})
    endif()
    add_test(NAME ${test} COMMAND ${name})
    # The timeout is against hangs alone: the longest takes two minutes, on a busy machine several times that.
    set_tests_properties(${test} PROPERTIES TIMEOUT 3000 ENVIRONMENT
      "GRAFT_SOURCE_DIR=${PROJECT_SOURCE_DIR};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
    if(ARG_LONG)
      set_tests_properties(${test} PROPERTIES COST 100)
    endif()
  endforeach()
endfunction()

# graft_fuzz(NAME SOURCES ... DEPS ...): a libFuzzer program under the fuzz preset (clang). Among the tests a
# program of the same name gives the same function what lies in its corpus, whole and damaged.
function(graft_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(GRAFT_BUILD_FUZZERS)
    add_executable(${name} ${ARG_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_property(GLOBAL APPEND PROPERTY GRAFT_FUZZERS ${name})
  elseif(GRAFT_BUILD_TESTS)
    add_executable(${name} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz_corpus/replay.cc)
    add_test(NAME ${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz_corpus/${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 3000)
  else()
    return()
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# graft_op(TARGET op [SMALL] [HOPPER files]): adds per instruction set a copy of op/op_cpu.cc, and every
# op/op_*.cu where the CUDA backend is built; those of HOPPER for Hopper alone. SMALL: op/op_cpu.cc is
# compiled with the other small ones, see graft_small_cpu_sources.
function(graft_op target op)
  cmake_parse_arguments(ARG "SMALL" "" "HOPPER" ${ARGN})
  if(ARG_SMALL AND GRAFT_BATCH GREATER 1)
    set_property(TARGET ${target} APPEND PROPERTY GRAFT_SMALL_CPU_SOURCES ${op}/${op}_cpu.cc)
  elseif(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${op}/${op}_cpu.cc)
    graft_cpu_source(${target} ${op}/${op}_cpu.cc)
  endif()
  if(GRAFT_HAS_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${op}/${op}_*.cu ${op}/${op}_cuda.cc)
    set(hopper_sources)
    if(ARG_HOPPER)
      file(GLOB hopper_sources CONFIGURE_DEPENDS ${ARG_HOPPER})
      list(REMOVE_ITEM cuda_sources ${hopper_sources})
    endif()
    graft_cuda_sources(${target} ${cuda_sources} HOPPER ${hopper_sources})
  endif()
endfunction()

# graft_small_cpu_sources(TARGET): after its ops, what those said SMALL of.
function(graft_small_cpu_sources target)
  get_target_property(files ${target} GRAFT_SMALL_CPU_SOURCES)
  if(files)
    list(LENGTH files GRAFT_BATCH)
    graft_batches(batch small_cpu ${files})
    graft_cpu_source(${target} ${batch})
  endif()
endfunction()

# graft_cpu_source(TARGET file): one copy of the file per instruction set, see kernels/common/cpu_isa.h.
# Kernels are optimised and NOT instrumented in sanitizer builds: instrumented unrolled loops take minutes
# to compile and crawl; their tests put sentinels around every output instead. The command is the same
# under every preset, so that builds share objects. gcc 12 takes the deliberately undefined operand inside
# its own AVX-512 intrinsics for an uninitialised variable. No contraction: a loop's body and its tail must
# round alike, so fused multiply-adds are written out.
function(graft_cpu_source target file)
  get_filename_component(stem ${file} NAME_WE)
  string(REPLACE "_cpu_0" "_cpu" stem ${stem})
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
    target_link_libraries(${copy} PRIVATE graft_common_options)
    target_compile_definitions(${copy} PRIVATE GRAFT_HAS_CUDA=0)
    target_compile_options(${copy} PRIVATE ${flags} -O3 -ffp-contract=off
      -Wno-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${copy}>)
  endforeach()
endfunction()
