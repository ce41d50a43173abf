# Decides which GPU backends are built: sets RAPT_WITH_CUDA, RAPT_WITH_HIP and RAPT_WITH_EMULATOR.

set(RAPT_WITH_CUDA OFF)
if(RAPT_CUDA STREQUAL "AUTO")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cudart_static)
    set(RAPT_WITH_CUDA ON)
  endif()
elseif(RAPT_CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(RAPT_WITH_CUDA ON)
endif()
if(RAPT_WITH_CUDA)
  set(RAPT_CUDA_ARCHITECTURES "80-virtual;90a-real" CACHE STRING
    "What CUDA kernels are compiled for, as CMAKE_CUDA_ARCHITECTURES has it")
  set(CMAKE_CUDA_ARCHITECTURES ${RAPT_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "")
  enable_language(CUDA)
  # CMake 3.25.1 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()

set(RAPT_WITH_HIP OFF)
if(RAPT_HIP)
  # Headers are all it takes: HIP's own package ends the configuration where hipcc is missing, or
  # where the compiler of everything else is a clang that it does not know.
  find_path(RAPT_HIP_INCLUDE_DIR hip/hip_runtime_api.h
    HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include)
  mark_as_advanced(RAPT_HIP_INCLUDE_DIR)
  if(NOT RAPT_HIP_INCLUDE_DIR AND NOT RAPT_HIP STREQUAL "AUTO")
    message(FATAL_ERROR "RAPT_HIP is ${RAPT_HIP}, but hip/hip_runtime_api.h is not found: install \
Debian's libamdhip64-dev, or set ROCM_PATH or RAPT_HIP_INCLUDE_DIR")
  endif()
endif()
if(RAPT_HIP AND RAPT_HIP_INCLUDE_DIR)
  include(cmake/hip.cmake)
  rapt_check_hip_compiler(problem)
  if(NOT problem)
    set(RAPT_WITH_HIP ON)
  elseif(RAPT_HIP STREQUAL "AUTO")
    message(STATUS "No HIP backend: ${problem}")
  else()
    message(FATAL_ERROR "RAPT_HIP is ${RAPT_HIP}, but ${problem}")
  endif()
endif()

set(RAPT_WITH_EMULATOR ${RAPT_EMULATOR})
if(RAPT_EMULATOR STREQUAL "AUTO")
  set(RAPT_WITH_EMULATOR ${RAPT_BUILD_TESTS})
endif()
if(RAPT_WITH_EMULATOR)
  set(Boost_USE_STATIC_LIBS ON) # a program that is copied elsewhere needs no Boost there
  find_package(Boost REQUIRED COMPONENTS context)
endif()

message(STATUS "rapt backends: cpu, cuda ${RAPT_WITH_CUDA}, hip ${RAPT_WITH_HIP}, \
emulator ${RAPT_WITH_EMULATOR}")
