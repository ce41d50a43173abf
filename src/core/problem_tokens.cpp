#include "src/core/problem_tokens.hpp"

#include "src/core/text.hpp"

namespace rapt {
namespace {

constexpr ProblemToken tokens[] = {
    {"b2", "batch: sequences; 1 if left out"},
    {"h32 h32/8", "query heads, or query heads / kv heads; 1 if left out"},
    {"s2048", "length of queries and of keys"},
    {"q1 kv8192", "instead of s: length of queries, of keys"},
    {"d128 d192/128", "head dim, or q·k dim / v dim"},
    {"f32 f16 bf16", "element type; f32 if left out"},
    {"out:f32", "results in f32 where the elements are not"},
    {"causal", "no key after the query's position"},
    {"window128 window128:64 window:64", "keys from left to right of the query's position"},
    {"window1024+4", "beside a left bound also the first 4 keys"},
    {"offset0", "position of query 0 among the keys; aligned at the end if left out"},
    {"bias:hqk bias:hqk:f32 bias:1", "a bias along these axes of b, h, q, k; its type; along none"},
    {"mask:bqk", "a boolean mask, likewise"},
    {"alibi alibi:b", "slopes of each head; of each sequence and head"},
    {"softcap30", "scores become 30·tanh(score/30)"},
    {"sinks", "a logit without a value for each head"},
    {"dropout0.1", "drops pairs with this probability, rounded to 1/256"},
    {"varlen varlen3000 varlen3000/2500", "packed sequences; rows of q, and of k and v, in all"},
    {"kv_lengths kv_lengths5000", "lengths of sequences' keys as data; their expected sum"},
    {"page16", "a paged KV cache, 16 tokens a page"},
    {"bshd bhsd", "layout: heads after, or before, the sequence; bshd if left out"},
    {"k@4096,512,128",
     "strides of a tensor that is not dense: q, k, v, out, lse, bias, mask, dq, …"},
    {"scale0.1", "softmax scale other than 1/√dim"},
    {"lse", "also return the log-sum-exp"},
    {"backward backward:bias,sinks,alibi", "gradients dq, dk and dv; and of these"},
    {"dlse", "a gradient of lse is given to backward"},
    {"dq:f32", "a gradient (dq, dk, dv, dbias) in f32 where the elements are not"},
    {"align4", "pointers aligned to 4 bytes only"},
    {"batch-invariant batch-invariant:rows",
     "a row's bits do not depend on its batch; nor on other queries, unseen keys and pages"},
    {"tf32", "single TF32 products allowed for f32"},
};

}  // namespace

std::span<const ProblemToken> problem_tokens() { return tokens; }

std::string problem_token_list() {
  std::string list;
  for (const ProblemToken& token : tokens) list += text(list.empty() ? "" : " ", token.forms);
  return list;
}

}  // namespace rapt
