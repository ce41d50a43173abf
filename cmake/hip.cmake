# HIP files through a clang, by commands of our own: CMake's HIP language would want ROCm's device
# libraries, which Debian has not for every architecture. One object holds the code of all of them.
# Needs RAPT_HIP_INCLUDE_DIR.

set(RAPT_HIP_ARCHITECTURES "gfx908;gfx90a;gfx942;gfx1100" CACHE STRING
  "What HIP kernels are compiled for")
find_program(RAPT_HIP_COMPILER NAMES amdclang++ clang++-19 clang++-20 clang++-21 clang++
  HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES llvm/bin bin
  DOC "A clang that compiles HIP for RAPT_HIP_ARCHITECTURES")

# Code objects of version 4: runtimes of ROCm 5 load them, and later ones.
set(rapt_hip_options -x hip -std=c++20 -O3 -DNDEBUG -fPIC -nogpulib -nogpuinc
  -mcode-object-version=4)
foreach(architecture IN LISTS RAPT_HIP_ARCHITECTURES)
  list(APPEND rapt_hip_options --offload-arch=${architecture})
endforeach()

# rapt_check_hip_compiler(PROBLEM): what keeps the compiler from its work; empty if nothing does.
function(rapt_check_hip_compiler problem)
  set(${problem} "there is no clang: install Debian's clang-19, or set RAPT_HIP_COMPILER"
    PARENT_SCOPE)
  if(NOT RAPT_HIP_COMPILER)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/CMakeFiles/check.hip)
  file(WRITE ${source} "__attribute__((device)) int variable;\n")
  execute_process(COMMAND ${RAPT_HIP_COMPILER} ${rapt_hip_options} -c ${source} -o ${source}.o
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result EQUAL 0)
    set(${problem} "" PARENT_SCOPE)
  else()
    set(${problem} "${RAPT_HIP_COMPILER} does not compile for ${RAPT_HIP_ARCHITECTURES}; Debian's \
clang-19 with clang-tools-19 and lld-19 would. It says:\n${output}" PARENT_SCOPE)
  endif()
endfunction()

# rapt_add_hip_objects(OBJECTS SOURCES...): a list of objects, and the target rapt_hip_code that
# makes them.
function(rapt_add_hip_objects objects)
  set(options ${rapt_hip_options} -fvisibility=hidden -fvisibility-inlines-hidden
    -D__HIP_PLATFORM_AMD__=1 -include ${PROJECT_SOURCE_DIR}/src/hip/language.hpp
    -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include -idirafter ${RAPT_HIP_INCLUDE_DIR}
    -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${RAPT_WARNINGS_AS_ERRORS}>:-Werror>)
  set(list "")
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${RAPT_HIP_COMPILER} ${options} -MD -MF ${object}.d
              -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      # A mark that only linkers of device code look for would be seen outside of librapt.so. What
      # the compiler's code calls of the runtime goes through src/hip/compiled_code.cpp.
      COMMAND ${CMAKE_OBJCOPY} --wildcard --localize-symbol=__hip_cuid_*
              --redefine-sym __hipRegisterFatBinary=rapt_hip_register_file
              --redefine-sym __hipRegisterFunction=rapt_hip_register_kernel
              --redefine-sym __hipUnregisterFatBinary=rapt_hip_unregister_file
              --redefine-sym __hipPopCallConfiguration=rapt_hip_pop_launch
              --redefine-sym hipLaunchKernel=rapt_hip_launch_kernel ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPFILE ${object}.d
      COMMENT "Building HIP object src/${source}.o"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND list ${object})
  endforeach()
  set_source_files_properties(${list} PROPERTIES GENERATED ON EXTERNAL_OBJECT ON)
  add_custom_target(rapt_hip_code DEPENDS ${list})
  set(${objects} ${list} PARENT_SCOPE)
endfunction()
