// The wgmma instructions, for wgmma.cuh, which tells what they do. Written by
// tools/wgmma_instructions.py.
#pragma once

#include <stdint.h>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

// Of D (64, n) += A (64, k) · B (k, n): from_shared() has A in shared memory, from_registers() in
// registers. Matrices in shared memory are given by their descriptors.
template <class Element, int n>
struct WgmmaInstruction;

// clang-format off
// Eight columns of D.
#define RAPT_SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])

template <>
struct WgmmaInstruction<F16, 32> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[4][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %18, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, %16, %17, add, 1, 1, %19, %20;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %21, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, {%16,%17,%18,%19}, %20, add, 1, 1, %22;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 40> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[5][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %22, 0;"
        "wgmma.mma_async.sync.aligned.m64n40k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19"
        "}, %20, %21, add, 1, 1, %23, %24;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 64> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[8][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, %32, %33, add, 1, 1, %35, %36;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %37, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, {%32,%33,%34,%35}, %36, add, 1, 1, %38;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 80> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[10][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %42, 0;"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39"
        "}, %40, %41, add, 1, 1, %43, %44;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 96> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[12][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %50, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
        "}, %48, %49, add, 1, 1, %51, %52;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[12][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %53, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
        "}, {%48,%49,%50,%51}, %52, add, 1, 1, %54;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 112> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[14][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %58, 0;"
        "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55"
        "}, %56, %57, add, 1, 1, %59, %60;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 128> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %66, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, add, 1, 1, %67, %68;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %69, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, {%64,%65,%66,%67}, %68, add, 1, 1, %70;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 192> {
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[24][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %101, 0;"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
        "}, {%96,%97,%98,%99}, %100, add, 1, 1, %102;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15), RAPT_SUMS(16), RAPT_SUMS(17),
          RAPT_SUMS(18), RAPT_SUMS(19), RAPT_SUMS(20), RAPT_SUMS(21), RAPT_SUMS(22), RAPT_SUMS(23)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<F16, 256> {
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[32][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %133, 0;"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
        "}, {%128,%129,%130,%131}, %132, add, 1, 1, %134;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15), RAPT_SUMS(16), RAPT_SUMS(17),
          RAPT_SUMS(18), RAPT_SUMS(19), RAPT_SUMS(20), RAPT_SUMS(21), RAPT_SUMS(22), RAPT_SUMS(23),
          RAPT_SUMS(24), RAPT_SUMS(25), RAPT_SUMS(26), RAPT_SUMS(27), RAPT_SUMS(28), RAPT_SUMS(29),
          RAPT_SUMS(30), RAPT_SUMS(31)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 32> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[4][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %18, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, %16, %17, add, 1, 1, %19, %20;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %21, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, {%16,%17,%18,%19}, %20, add, 1, 1, %22;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 40> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[5][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %22, 0;"
        "wgmma.mma_async.sync.aligned.m64n40k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19"
        "}, %20, %21, add, 1, 1, %23, %24;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 64> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[8][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, %32, %33, add, 1, 1, %35, %36;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %37, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, {%32,%33,%34,%35}, %36, add, 1, 1, %38;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 80> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[10][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %42, 0;"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39"
        "}, %40, %41, add, 1, 1, %43, %44;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 96> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[12][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %50, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
        "}, %48, %49, add, 1, 1, %51, %52;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[12][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %53, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
        "}, {%48,%49,%50,%51}, %52, add, 1, 1, %54;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 112> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[14][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %58, 0;"
        "wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55"
        "}, %56, %57, add, 1, 1, %59, %60;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 128> {
  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  RAPT_DEVICE static void from_shared(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %66, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, add, 1, 1, %67, %68;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15)
        : "l"(a), "l"(b), "r"(int{add}), "n"(a_is_mn_major), "n"(b_is_mn_major));
  }
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %69, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, {%64,%65,%66,%67}, %68, add, 1, 1, %70;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 192> {
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[24][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %101, 0;"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
        "}, {%96,%97,%98,%99}, %100, add, 1, 1, %102;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15), RAPT_SUMS(16), RAPT_SUMS(17),
          RAPT_SUMS(18), RAPT_SUMS(19), RAPT_SUMS(20), RAPT_SUMS(21), RAPT_SUMS(22), RAPT_SUMS(23)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<BF16, 256> {
  template <int b_is_mn_major = 0>
  RAPT_DEVICE static void from_registers(float (&d)[32][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %133, 0;"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
        "}, {%128,%129,%130,%131}, %132, add, 1, 1, %134;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15), RAPT_SUMS(16), RAPT_SUMS(17),
          RAPT_SUMS(18), RAPT_SUMS(19), RAPT_SUMS(20), RAPT_SUMS(21), RAPT_SUMS(22), RAPT_SUMS(23),
          RAPT_SUMS(24), RAPT_SUMS(25), RAPT_SUMS(26), RAPT_SUMS(27), RAPT_SUMS(28), RAPT_SUMS(29),
          RAPT_SUMS(30), RAPT_SUMS(31)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}), "n"(b_is_mn_major));
  }
};

template <>
struct WgmmaInstruction<float, 32> {
  RAPT_DEVICE static void from_registers(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %21, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, {%16,%17,%18,%19}, %20, add, 1, 1;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}));
  }
};

template <>
struct WgmmaInstruction<float, 64> {
  RAPT_DEVICE static void from_registers(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %37, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "}, {%32,%33,%34,%35}, %36, add, 1, 1;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}));
  }
};

template <>
struct WgmmaInstruction<float, 128> {
  RAPT_DEVICE static void from_registers(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %69, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, {%64,%65,%66,%67}, %68, add, 1, 1;}"
        : RAPT_SUMS(0), RAPT_SUMS(1), RAPT_SUMS(2), RAPT_SUMS(3), RAPT_SUMS(4), RAPT_SUMS(5),
          RAPT_SUMS(6), RAPT_SUMS(7), RAPT_SUMS(8), RAPT_SUMS(9), RAPT_SUMS(10), RAPT_SUMS(11),
          RAPT_SUMS(12), RAPT_SUMS(13), RAPT_SUMS(14), RAPT_SUMS(15)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}));
  }
};

#undef RAPT_SUMS
// clang-format on

}  // namespace rapt::cuda::ptx
