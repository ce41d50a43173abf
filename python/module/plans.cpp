// Plans are remembered: a call with a problem seen before pays for a look-up, not for the choice.
#include <unistd.h>

#include <cstring>
#include <unordered_map>

#include "python/module/interruptible.hpp"
#include "python/module/request.hpp"

namespace rapt_python {
namespace {

// What rapt reads when it makes a plan: if any of it changes, so may the plan.
std::string environment() {
  std::string all;
  for (char** entry = environ; *entry; ++entry) {
    if (std::strncmp(*entry, "RAPT_", 5) == 0) all.append(*entry) += '\n';
  }
  return all;
}

struct Key {
  rapt::Problem problem;
  rapt::Backend backend;
  std::int32_t index;
  std::string kernel, environment;
  friend bool operator==(const Key&, const Key&) = default;
};

// Sizes and strides tell most problems apart; equality does the rest.
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const rapt::Problem& p = key.problem;
    std::size_t hash = 0;
    for (const std::int64_t number :
         {p.batch, p.heads, p.kv_heads, p.q_len, p.kv_len, p.total_q, p.total_kv, p.qk_dim, p.v_dim,
          p.page_size, p.q[0], p.q[1], p.k[0], p.k[1], p.offset.value_or(-1),
          p.window.left.value_or(-1), p.window.right.value_or(-1),
          static_cast<std::int64_t>(p.dtype), static_cast<std::int64_t>(p.out_dtype)})
      hash = (hash ^ static_cast<std::size_t>(number)) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
  }
};

}  // namespace

rapt::Plan remembered_plan(const Request& request, const Settings& settings) {
  constexpr std::size_t most = 1024;  // a decode loop over unpaged keys has a problem per token
  static auto& plans = *new std::unordered_map<Key, rapt::Plan, KeyHash>;
  const rapt::Device& device = request.device();
  Key key{problem_of(request, settings.options, settings.layout), device.backend, device.index,
          settings.kernel, environment()};
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  if (plans.size() >= most) plans.clear();
  rapt::Plan plan(key.problem, device,
                  {.kernel = settings.kernel, .executor = interruptible_threads(device)});
  return plans.emplace(std::move(key), std::move(plan)).first->second;
}

}  // namespace rapt_python
