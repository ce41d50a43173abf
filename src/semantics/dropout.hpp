// Which pairs dropout keeps: a function of (seed, offset) and of the pair's own coordinates, so
// that every kernel on every chip drops the same ones, whatever its tiles.
//
// The numbers are those of Philox4x32-10 (Salmon et al., 2011), a block cipher over counters. Each
// head of each sequence has a stream of its own, whose key is a first draw from the user's seed;
// there, one draw gives 16 bytes and serves 16 pairs, queries a + 8m with keys b + 8n (m, n < 4):
//
//     query = 32 A + 8 m + a,  key = 32 B + 8 n + b,  a, b < 8
//     key of the stream = draw(seed, counter {offset, sequence, head}), its first two words
//     byte n of word m  = draw(key of the stream, counter {8 A + a, 8 B + b})
//
// The fragments of S and of Sᵀ on tensor cores hold rows 8 apart and columns 8 apart, and so use
// what they draw. A pair is dropped if its byte is below round(256 p); the probability is that
// number / 256, in the divisor of what is kept as well.
//
// Queries and keys count from the begin of their sequence, packed, paged or cut to pieces.
#pragma once

#include "src/semantics/portable.hpp"

namespace rapt::semantics {

struct PhiloxKey {
  uint32_t word[2];
};
struct PhiloxWords {
  uint32_t word[4];
};

RAPT_HOST_DEVICE PhiloxWords philox(PhiloxKey key, PhiloxWords counter) {
  uint32_t a = counter.word[0], b = counter.word[1], c = counter.word[2], d = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * a;
    const uint64_t second = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(second >> 32) ^ b ^ key.word[0];
    b = static_cast<uint32_t>(second);
    c = static_cast<uint32_t>(first >> 32) ^ d ^ key.word[1];
    d = static_cast<uint32_t>(first);
    key.word[0] += 0x9E3779B9;
    key.word[1] += 0xBB67AE85;
  }
  return {{a, b, c, d}};
}

RAPT_HOST_DEVICE uint32_t low_word(Index value) { return static_cast<uint32_t>(value); }
RAPT_HOST_DEVICE uint32_t high_word(Index value) {
  return static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
}

// The dropout of a call.
struct Dropout {
  const int64_t* seed;  // and offset; null: nothing is dropped
  uint32_t dropped;     // pairs of 256, below 256; 0 without a seed
};

// What a weight that is kept is multiplied by, 1 / (1 − p).
template <class Real>
RAPT_HOST_DEVICE Real kept_scale(const Dropout& dropout) {
  return Real(256) / Real(256 - dropout.dropped);
}

// The dropout of one head of a sequence. Without a seed it drops nothing.
struct DropoutStream {
  PhiloxKey key;
  uint32_t dropped;
};
RAPT_HOST_DEVICE DropoutStream dropout_stream(const Dropout& dropout, Index sequence, Index head) {
  if (!dropout.seed) return {};
  const int64_t seed = dropout.seed[0], offset = dropout.seed[1];
  const PhiloxWords words =
      philox({{low_word(seed), high_word(seed)}},
             {{low_word(offset), high_word(offset), low_word(sequence), low_word(head)}});
  return {{{words.word[0], words.word[1]}}, dropout.dropped};
}

// The bytes of 16 pairs.
struct DropoutBytes {
  uint32_t word[4];  // of queries a + 8m; byte n of one: of keys b + 8n
};
// Which of a draw's queries, or keys, an index is: m, or n.
RAPT_HOST_DEVICE int place_in_draw(Index index) { return static_cast<int>(index >> 3 & 3); }

// Of the 16 pairs that this one is among.
RAPT_HOST_DEVICE DropoutBytes draw_dropout(const DropoutStream& stream, Index query, Index key) {
  const Index row = query >> 5 << 3 | (query & 7);
  const Index column = key >> 5 << 3 | (key & 7);
  const PhiloxWords words =
      philox(stream.key, {{low_word(row), high_word(row), low_word(column), high_word(column)}});
  return {{words.word[0], words.word[1], words.word[2], words.word[3]}};
}

// Whether query m of a draw keeps key n.
RAPT_HOST_DEVICE bool keeps(const DropoutStream& stream, const DropoutBytes& bytes, int m, int n) {
  const uint32_t even = (m & 2) == 0 ? bytes.word[0] : bytes.word[2];  // words stay in registers
  const uint32_t odd = (m & 2) == 0 ? bytes.word[1] : bytes.word[3];
  return (((m & 1) == 0 ? even : odd) >> (8 * n) & 0xff) >= stream.dropped;
}

// One pair alone: for those who have no use for the other 15.
RAPT_HOST_DEVICE bool keeps(const DropoutStream& stream, Index query, Index key) {
  if (stream.dropped == 0) return true;
  return keeps(stream, draw_dropout(stream, query, key), place_in_draw(query), place_in_draw(key));
}

// The same for those who have no room for a stream.
RAPT_HOST_DEVICE bool is_dropped(const Dropout& dropout, Index sequence, Index head, Index query,
                                 Index key) {
  return dropout.seed && !keeps(dropout_stream(dropout, sequence, head), query, key);
}

// Pairs of one head one after another: draws anew where one is not among the last draw's 16. Loops
// whose queries or keys go in steps of 8 draw once for four pairs.
class DropoutPairs {
 public:
  RAPT_HOST_DEVICE explicit DropoutPairs(const DropoutStream& stream) : stream_(stream) {}

  RAPT_HOST_DEVICE bool keeps(Index query, Index key) {
    constexpr Index same = ~Index{0x18};  // but for m, or n
    if ((query & same) != query_ || (key & same) != key_) {
      bytes_ = draw_dropout(stream_, query, key);
      query_ = query & same;
      key_ = key & same;
    }
    return semantics::keeps(stream_, bytes_, place_in_draw(query), place_in_draw(key));
  }

 private:
  DropoutStream stream_;
  DropoutBytes bytes_ = {};
  Index query_ = -1, key_ = -1;  // of the draw; −1: none yet
};

}  // namespace rapt::semantics
