#include "src/core/index_data.hpp"

#include <span>

#include "src/core/fault.hpp"

namespace rapt {
namespace {

std::span<const std::int32_t> integers(const Tensor& tensor, std::int64_t count) {
  return {static_cast<const std::int32_t*>(tensor.data), static_cast<std::size_t>(count)};
}

void check_starts(std::string_view name, const Tensor& tensor, std::int64_t batch,
                  std::int64_t total, std::int64_t longest) {
  const auto starts = integers(tensor, batch + 1);
  if (starts[0] < 0) fault(name, "[0] is ", starts[0], "; starts must be 0 or more");
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t length = std::int64_t{starts[i + 1]} - starts[i];
    if (length < 0)
      fault(name, " goes backwards: ", name, "[", i + 1, "] is ", starts[i + 1], " after ",
            starts[i]);
    if (length > longest) {
      fault(name, " gives sequence ", i, " a length of ", length, "; the problem's bound is ",
            longest);
    }
  }
  if (starts.back() > total) {
    fault(name, "[", batch, "] is ", starts.back(), "; the packed tensor has ", total, " rows");
  }
}

void check_lengths(const Sizes& sizes, const Arguments& a) {
  const auto lengths = integers(a.kv_lengths, sizes.batch);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::int64_t room = sizes.kv_len;
    if (a.kv_starts.present()) {
      const auto starts = integers(a.kv_starts, sizes.batch + 1);
      room = starts[i + 1] - starts[i];
    }
    if (lengths[i] < 0 || lengths[i] > room) {
      fault("kv_lengths[", i, "] is ", lengths[i], "; it must be from 0 to ", room);
    }
  }
}

// Entries past a sequence's length are never read and may be anything.
void check_pages(const Problem& p, const Sizes& sizes, const Arguments& a) {
  const std::int64_t pages = sizes.pages;
  const auto* table = static_cast<const std::int32_t*>(a.page_table.data);
  for (std::int64_t i = 0; i < sizes.batch; ++i) {
    const std::int64_t length =
        p.lengths ? integers(a.kv_lengths, sizes.batch)[static_cast<std::size_t>(i)] : p.kv_len;
    const std::int64_t used = (length + p.page_size - 1) / p.page_size;
    for (std::int64_t j = 0; j < used; ++j) {
      const std::int32_t page = table[i * a.page_table.stride[0] + j];
      if (page < 0 || page >= pages) {
        fault("page_table[", i, "][", j, "] is ", page, "; the pool has pages 0 to ", pages - 1);
      }
    }
  }
}

}  // namespace

void check_index_data(const Problem& p, const Sizes& sizes, const Arguments& a) {
  if (p.varlen) check_starts("q_starts", a.q_starts, sizes.batch, sizes.total_q, p.q_len);
  if (p.varlen && !p.paged())
    check_starts("kv_starts", a.kv_starts, sizes.batch, sizes.total_kv, p.kv_len);
  if (p.lengths) check_lengths(sizes, a);
  if (p.paged()) check_pages(p, sizes, a);
}

}  // namespace rapt
