# The CUDA backend: built where nvcc is. The binary starts without a driver (the runtime is linked in and
# looks for one), and needs no other library of CUDA's.
#   AUTO  where a GPU is to be seen as well, for its architecture, or where CMAKE_CUDA_ARCHITECTURES says which
#   CHECK like AUTO; where there is no GPU the device code is checked for errors and left out
#   ON    where nvcc is, for CMAKE_CUDA_ARCHITECTURES
#   OFF   never
set(GRAFT_CUDA AUTO CACHE STRING "The CUDA backend: AUTO, CHECK, ON or OFF, see cmake/cuda.cmake")
set(graft_cuda_wish ${GRAFT_CUDA})
set(graft_cuda_checks_only OFF)

# Compute capabilities of the GPUs that this machine shows, as CMake takes them.
function(graft_visible_gpus out)
  set(architectures)
  find_program(NVIDIA_SMI nvidia-smi)
  if(NVIDIA_SMI)
    execute_process(COMMAND ${NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE capabilities RESULT_VARIABLE failed ERROR_QUIET)
    if(failed EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
      foreach(capability ${capabilities})
        string(REPLACE "." "" architecture ${capability})
        # 90a has Hopper's own instructions.
        string(REGEX REPLACE "^90$" "90a" architecture ${architecture})
        list(APPEND architectures ${architecture}-real)
      endforeach()
      list(REMOVE_DUPLICATES architectures)
    endif()
  endif()
  set(${out} "${architectures}" PARENT_SCOPE)
endfunction()

if(graft_cuda_wish STREQUAL "ON" AND NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
elseif(graft_cuda_wish AND NOT CMAKE_CUDA_ARCHITECTURES)
  graft_visible_gpus(CMAKE_CUDA_ARCHITECTURES)
  if(CMAKE_CUDA_ARCHITECTURES)
    message(STATUS "building for the GPU of this machine: ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(graft_cuda_wish STREQUAL "CHECK")
    message(STATUS "no GPU to be seen: CUDA code is checked and left out")
    set(graft_cuda_checks_only ON)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  else()
    message(STATUS "no GPU to be seen: building for the CPU alone")
    set(graft_cuda_wish OFF)
  endif()
endif()
if(graft_cuda_wish)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(STATUS "no nvcc: building for the CPU alone")
    set(graft_cuda_wish OFF)
  endif()
endif()

# What the rest asks: whether the backend is part of this build.
set(GRAFT_HAS_CUDA OFF)
if(graft_cuda_wish)
  set(GRAFT_HAS_CUDA ON)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${graft_ccache})
  # CMake 3.25 does not know that nvcc 13 speaks C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr -Werror all-warnings")
  if(graft_cuda_checks_only)
    string(APPEND CMAKE_CUDA_FLAGS " -fdevice-syntax-only")
  else()
    # The same flags in every preset, so that builds share objects. nvcc of its own accord leaves the images of
    # Hopper's GEMMs as they are: 33 MB of them, 5 compressed.
    string(APPEND CMAKE_CUDA_FLAGS " -O3 -lineinfo -DNDEBUG --compress-mode=size")
  endif()
endif()

# graft_cuda_sources(TARGET HOPPER ... files): adds them; those named after HOPPER are compiled for Hopper
# and later alone, whatever else the build is for: no other card runs their kernels.
function(graft_cuda_sources target)
  cmake_parse_arguments(ARG "" "" "HOPPER" ${ARGN})
  target_sources(${target} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  if(NOT ARG_HOPPER)
    return()
  endif()
  if(NOT TARGET ${target}_hopper)
    set(architectures ${CMAKE_CUDA_ARCHITECTURES})
    list(FILTER architectures INCLUDE REGEX "^(9|1[0-9])[0-9]")
    if(NOT architectures)
      list(GET CMAKE_CUDA_ARCHITECTURES 0 architectures)
    endif()
    add_library(${target}_hopper OBJECT)
    set_target_properties(${target}_hopper PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    target_link_libraries(${target}_hopper PRIVATE graft_options)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_hopper>)
  endif()
  target_sources(${target}_hopper PRIVATE ${ARG_HOPPER})
endfunction()
