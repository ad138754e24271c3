# The CUDA backend: built where nvcc is. The binary starts without a driver (the runtime is linked in and
# looks for one), and needs no other library of CUDA's.
option(GRAFT_CUDA "Build the CUDA backend, where nvcc is found" ON)
if(GRAFT_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(STATUS "no nvcc: building for the CPU alone")
    set(GRAFT_CUDA OFF)
  endif()
endif()
if(GRAFT_CUDA)
  # Ampere to Hopper; 90a has Hopper's own instructions. Presets for development build 90a alone.
  set(CMAKE_CUDA_ARCHITECTURES "80-real;86-real;89-real;90a-real" CACHE STRING "As CMake takes them")
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${graft_ccache})
  # CMake 3.25 does not know that nvcc 13 speaks C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -O3 --expt-relaxed-constexpr -lineinfo -Werror all-warnings")
  # The same flags in every preset, so that builds share objects.
  if(NOT CMAKE_BUILD_TYPE)
    string(APPEND CMAKE_CUDA_FLAGS " ${CMAKE_CUDA_FLAGS_RELEASE}")
  endif()
endif()
