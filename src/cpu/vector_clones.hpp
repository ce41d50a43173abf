// RAPT_VECTOR_CLONES before a function compiles it once per x86-64 level and picks the best the
// processor has at run time. Sanitizers do not get along with the resolvers that takes, and other
// compilers and chips go without.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define RAPT_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else  // knows no levels
#define RAPT_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define RAPT_VECTOR_CLONES
#endif
