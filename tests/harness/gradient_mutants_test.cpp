// Gradients that are wrong in one way: the bounds must find out each of them, in every type.
#include <gtest/gtest.h>

#include <functional>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/oracle/pair_gradients.hpp"
#include "src/verify/reference.hpp"

namespace rapt::test {
namespace {

using semantics::Index;

// What a pair adds to dq, dk and dv.
struct Part {
  double dq, dk, dv;
};
using Mutant = std::function<Part(const BackwardCall&, const GradientRow&, const GradientKey&,
                                  const PairGradient&)>;

Part sound(const BackwardCall& backward, const GradientRow&, const GradientKey&,
           const PairGradient& pair) {
  const double product = pair.of_dot * double(backward.call.scale);
  return {product, product, pair.kept * pair.weight};
}

// dq, dk and dv with what the mutant says of each pair, as they are stored.
verify::Results computed(const verify::Data& data, const Mutant& mutant) {
  const Problem& p = data.problem();
  const BackwardCall backward = {p, make_call(p, data.on_host()),
                                 make_gradients(p, data.on_host())};
  const semantics::Call& call = backward.call;
  verify::Results results = data.download();
  const auto write = [&](const char* tensor, DType dtype, Index at,
                         const std::vector<double>& row) {
    std::byte* memory = results.at(tensor).data() + data.memory(tensor).front();
    with_element_type(dtype, [&](auto type) {
      auto* to = reinterpret_cast<decltype(type)*>(memory) + at;
      for (const double value : row) *to++ = from_float<decltype(type)>(float(value));
    });
  };
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index kv_head = 0; kv_head < call.kv_heads; ++kv_head) {
      const auto rows = gradient_rows(backward, sequence, kv_head);
      const auto keys = gradient_keys(backward, sequence, kv_head);
      const std::vector<double> zeros(static_cast<std::size_t>(call.qk_dim));
      std::vector<std::vector<double>> dq(rows.size(), zeros), dk(keys.size(), zeros),
          dv(keys.size(), std::vector<double>(static_cast<std::size_t>(call.v_dim)));
      for (std::size_t r = 0; r < rows.size(); ++r) {
        for (std::size_t k = 0; k < keys.size(); ++k) {
          const PairGradient pair = pair_gradient(backward, rows[r], keys[k]);
          if (!pair.visible) continue;
          const Part part = mutant(backward, rows[r], keys[k], pair);
          for (std::size_t d = 0; d < zeros.size(); ++d) {
            dq[r][d] += part.dq * keys[k].k[d];
            dk[k][d] += part.dk * rows[r].q[d];
          }
          for (std::size_t d = 0; d < dv[k].size(); ++d) dv[k][d] += part.dv * rows[r].dout[d];
        }
      }
      const semantics::Gradients& g = backward.gradients;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const Row& row = rows[r].row;
        write("dq", p.dq_dtype,
              semantics::row_offset(g.dq_stride, semantics::query_place(call, sequence, row.query),
                                    row.head),
              dq[r]);
      }
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const semantics::Place place = semantics::key_place(call, sequence, keys[k].key);
        write("dk", p.dk_dtype, semantics::row_offset(g.dk_stride, place, kv_head), dk[k]);
        write("dv", p.dv_dtype, semantics::row_offset(g.dv_stride, place, kv_head), dv[k]);
      }
    }
  }
  return results;
}

Part scaled(Part part, double dq, double dk, double dv) {
  return {part.dq * dq, part.dk * dk, part.dv * dv};
}

TEST(GradientMutants, AreAllFoundOutInEveryTypeAndWhatIsSoundPasses) {
  const std::pair<const char*, Mutant> mutants[] = {
      {"D is missing",
       [](const auto& c, const auto&, const auto&, const PairGradient& pair) {
         const double slope = pair.of_score == 0 ? 1 : pair.of_dot / pair.of_score;
         const double product = pair.weight * pair.dout_v * slope * double(c.call.scale);
         return Part{product, product, pair.weight};
       }},
      {"the scale applied twice in dk",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         return scaled(sound(c, r, k, pair), 1, double(c.call.scale), 1);
       }},
      {"a head of the group is not summed",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         const double kept = r.row.head % 2;
         return scaled(sound(c, r, k, pair), 1, kept, kept);
       }},
      {"one tile's dk is lost",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         return scaled(sound(c, r, k, pair), 1, r.row.query / 16 == 1 ? 0 : 1, 1);
       }},
      {"a single pair's dk is lost",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         const bool lost = r.row.query == 10 && k.key == 1 && r.row.head == 0;
         return scaled(sound(c, r, k, pair), 1, lost ? 0 : 1, 1);
       }},
      {"the cap's slope is left out",
       [](const auto& c, const auto&, const auto&, const PairGradient& pair) {
         const double product = pair.of_score * double(c.call.scale);
         return Part{product, product, pair.weight};
       }},
      {"dq is larger by 1 part in 100",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         return scaled(sound(c, r, k, pair), 1.01, 1, 1);
       }},
      {"dv is larger by 1 part in 200",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         return scaled(sound(c, r, k, pair), 1, 1, 1.005);
       }},
  };
  for (const char* type : {"f32", "f16", "bf16"}) {
    for (const std::uint64_t seed : {3u, 4u, 5u}) {
      const Problem problem = Problem::parse(
          fmt::format("b1 h4/2 q48 kv40 d32 {} causal softcap2 backward dlse", type));
      const verify::Data data(problem, Device::cpu(1), seed, verify::Fill::typical);
      const verify::Reference reference(data, 4000, seed);
      EXPECT_EQ(reference.compare(computed(data, sound)).fault, "") << type;
      for (const auto& [name, mutant] : mutants) {
        EXPECT_NE(reference.compare(computed(data, mutant)).fault, "")
            << name << ", " << type << ", seed " << seed;
      }
    }
  }
}

// dS with another Z.
Part with_kept(const BackwardCall& c, const GradientRow& row, const PairGradient& pair,
               double kept) {
  const double product = pair.weight * (kept * pair.dout_v - row.delta) * double(c.call.scale);
  return {product, product, kept * pair.weight};
}

TEST(GradientMutants, OfDropoutAreFoundOutInEveryType) {
  const std::pair<const char*, Mutant> mutants[] = {
      {"dropout forgotten in dv",
       [](const auto& c, const auto& r, const auto&, const PairGradient& pair) {
         const Part part = with_kept(c, r, pair, pair.kept);
         return Part{part.dq, part.dk, pair.weight};
       }},
      {"dropout forgotten in dS",
       [](const auto& c, const auto& r, const auto&, const PairGradient& pair) {
         const Part part = with_kept(c, r, pair, 1);
         return Part{part.dq, part.dk, pair.kept * pair.weight};
       }},
      {"the divisor missing in dv",
       [](const auto& c, const auto& r, const auto&, const PairGradient& pair) {
         const Part part = with_kept(c, r, pair, pair.kept);
         return Part{part.dq, part.dk, pair.kept == 0 ? 0 : pair.weight};
       }},
      {"the divisor missing in dS",
       [](const auto& c, const auto& r, const auto&, const PairGradient& pair) {
         const Part part = with_kept(c, r, pair, pair.kept == 0 ? 0 : 1);
         return Part{part.dq, part.dk, pair.kept * pair.weight};
       }},
      {"the next pair's bit",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         const bool kept = semantics::keeps(r.dropout, r.row.query, k.key + 1);
         return with_kept(c, r, pair, kept ? semantics::kept_scale<double>(c.call.dropout) : 0);
       }},
      {"one pair's bit",
       [](const auto& c, const auto& r, const auto& k, const PairGradient& pair) {
         const bool other = r.row.query == 8 && k.key == 0 && r.row.head == 0;  // the only key
         const double scale = semantics::kept_scale<double>(c.call.dropout);
         return with_kept(c, r, pair, other ? scale - pair.kept : pair.kept);
       }},
  };
  for (const char* type : {"f32", "f16", "bf16"}) {
    for (const std::uint64_t seed : {13u, 14u, 15u}) {
      const Problem problem = Problem::parse(
          fmt::format("b1 h4/2 q48 kv40 d32 {} causal dropout0.2 backward dlse", type));
      const verify::Data data(problem, Device::cpu(1), seed, verify::Fill::typical);
      const verify::Reference reference(data, 4000, seed);
      EXPECT_EQ(reference.compare(computed(data, sound)).fault, "") << type;
      for (const auto& [name, mutant] : mutants) {
        EXPECT_NE(reference.compare(computed(data, mutant)).fault, "")
            << name << ", " << type << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace rapt::test
