// Sizes near what numbers hold, where nothing as large is computed.
#include <gtest/gtest.h>

#include "rapt/rapt.hpp"
#include "src/gpu/split_kv_parameters.hpp"

namespace rapt::gpu {
namespace {

TEST(LargeSizes, ChunksFarBehindTheLastKeyAreNone) {
  RowTile tile = {};
  tile.keys = 70'000'000;
  tile.chunk_keys = 35'000'000;
  EXPECT_TRUE(tile.has_chunk(1));
  for (const int chunk : {2, 64, 127, 4096}) EXPECT_FALSE(tile.has_chunk(chunk)) << chunk;
}

TEST(LargeSizes, AnEmptyBatchOfLongSequencesIsExplained) {
  const Problem problem = Problem::parse("b0 h1000000/1 q281474976710656 kv1 d8 f32");
  for (const char* device : {"emu:0", "emu:1"})
    EXPECT_NO_THROW(explain(problem, Device::parse(device))) << device;
}

}  // namespace
}  // namespace rapt::gpu
