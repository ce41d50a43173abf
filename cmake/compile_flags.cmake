# The oldest compilers, warnings for our own targets, and sanitizers for everything in the build.

set(oldest_GNU 11)
set(oldest_Clang 14)
set(oldest ${oldest_${CMAKE_CXX_COMPILER_ID}})
if(oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} \
${CMAKE_CXX_COMPILER_VERSION}; rapt needs g++ ${oldest_GNU}, clang ${oldest_Clang} or newer: \
configure with -DCMAKE_CXX_COMPILER=...")
endif()

function(rapt_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wpedantic;-Wshadow>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  if(RAPT_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE
      $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()

if(RAPT_SANITIZE)
  add_compile_options(-fsanitize=${RAPT_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RAPT_SANITIZE})
endif()

# What sanitizers make slow and tests run much of is optimised; the rest compiles twice as fast without.
set(rapt_computing "")
if(RAPT_SANITIZE)
  set(rapt_computing -O1)
endif()

if(RAPT_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "RAPT_FUZZ needs clang, and the compiler is ${CMAKE_CXX_COMPILER_ID}: "
                      "configure with -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang")
endif()
set(rapt_fuzzed "") # what code is compiled with that the fuzzer should find its way through
if(RAPT_FUZZ)
  set(rapt_fuzzed -fsanitize=fuzzer-no-link)
endif()
