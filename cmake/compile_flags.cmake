# Warnings for our own targets, and sanitizers for everything in the build.

function(rapt_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wpedantic;-Wshadow>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  if(RAPT_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE
      $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()

set(rapt_sanitizers "${RAPT_SANITIZE}")
if(RAPT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RAPT_FUZZ needs clang, and the compiler is ${CMAKE_CXX_COMPILER_ID}: "
                        "configure with -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang")
  endif()
  if(RAPT_SANITIZE)
    message(FATAL_ERROR "RAPT_FUZZ brings its own sanitizers: leave RAPT_SANITIZE empty, "
                        "not ${RAPT_SANITIZE}")
  endif()
  set(rapt_sanitizers "address,undefined,fuzzer-no-link")
endif()

if(rapt_sanitizers)
  add_compile_options(-fsanitize=${rapt_sanitizers} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${rapt_sanitizers})
endif()
