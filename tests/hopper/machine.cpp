#include "tests/hopper/machine.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/core/float16.hpp"
#include "src/core/text.hpp"
#include "src/emulator/fibers.hpp"
#include "tests/hopper/model/cuda_language.hpp"

thread_local ThreadPlace threadIdx, blockIdx, gridDim, blockDim;

namespace rapt {

namespace cuda {

extern thread_local unsigned char* block_memory;
thread_local unsigned char* block_memory;

}  // namespace cuda

namespace model {
namespace {

using emulator::Fibers;

constexpr int most_blocks_at_once = 8;  // where they do not ask for more
constexpr std::size_t shared_alignment = 1024;
constexpr int named_barriers = 16;

struct Abandoned {};  // thrown to end a thread after another one's fault

// Its lanes do things together: how many have come, with what, and how often all had.
struct Warp {
  void* operands[warp_threads];
  int come = 0;
  std::uint64_t rounds = 0;
  Operation operation = nullptr;
  const char* what = "";
};

struct NamedBarrier {
  int come = 0, threads = 0;
  std::uint64_t rounds = 0;
};

// Sums that products in flight have taken from a thread's registers.
struct SumsInFlight {
  float* registers;
  std::vector<float> values;
  int products;
};

using Batch = std::vector<Product>;  // of one thread

struct Thread {
  int index = 0, block = 0;
  bool live = false;
  const char* waits_for = nullptr;  // null: it can run
  const std::function<bool()>* ready = nullptr;
  Batch open;                   // products that are not committed
  std::deque<Batch> committed;  // and not carried out
  std::uint64_t batches = 0;    // that it ever committed
  std::vector<SumsInFlight> sums;
  int unread_stores = 0, unwritten_stores = 0;
};

struct Block {
  std::unique_ptr<std::byte[]> room;
  std::byte* shared = nullptr;
  NamedBarrier barriers[named_barriers];
  std::vector<Warp> warps;
  std::vector<std::uint64_t> batches_done;  // by warpgroup
};

// What a unit beside the threads has to do. One in eight takes its time: until nothing else can go
// on.
struct UnitWork {
  std::function<void()> work;
  bool slow;
};

struct Machine {
  Fibers fibers;
  std::mt19937_64 random{20261118};
  Launch launch = {};
  int first_block = 0;
  std::vector<Thread> threads;
  std::vector<Block> blocks;
  std::vector<UnitWork> units;     // in any order
  std::uint64_t slow_batches = 0;  // which of the warpgroups' are slow
  Thread* running = nullptr;
  bool abandoned = false;
  std::exception_ptr fault;

  Block& block() { return blocks[static_cast<std::size_t>(running->block)]; }
};

// Threads of the machine that runs the model have one each, and keep its fibers.
Machine& machine() {
  static thread_local const auto one = std::make_unique<Machine>();
  return *one;
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A number below `end`.
std::size_t draw(Machine& m, std::size_t end) { return m.random() % end; }

// A factor of a product in shared memory, in rows of 128 bytes that are swizzled as TMA does it.
class SharedFactor {
 public:
  SharedFactor(const Machine& m, const Block& block, std::uint64_t descriptor, bool is_mn_major,
               int element_bytes)
      : shared_(block.shared),
        shared_bytes_(m.launch.shared_bytes),
        begin_(field(descriptor, 0) - static_cast<int>(first_shared_address)),
        leading_(field(descriptor, 16)),
        atom_(field(descriptor, 32)),
        is_mn_major_(is_mn_major),
        element_bytes_(element_bytes) {
    if (descriptor >> 62 != 1) fail("a matrix descriptor without a swizzle of 128 bytes");
  }

  // The k-th element of the i-th row of A, or column of B.
  const std::byte* at(int i, int k) const {
    const int in_panel = 128 / element_bytes_;
    const int byte =
        is_mn_major_ ? offset(k, i % in_panel) + i / in_panel * leading_ : offset(i, k);
    const int swizzled = byte ^ (byte >> 7 & 7) << 4;
    if (byte < 0 || swizzled + element_bytes_ > shared_bytes_)
      fail("a product of what lies outside shared memory");
    return shared_ + swizzled;
  }

 private:
  static int field(std::uint64_t descriptor, int shift) {
    return static_cast<int>(descriptor >> shift & 0x3fff) * 16;
  }
  int offset(int row, int column) const {
    return begin_ + row / 8 * atom_ + row % 8 * 128 + column * element_bytes_;
  }

  const std::byte* shared_;
  int shared_bytes_, begin_, leading_, atom_;
  bool is_mn_major_;
  int element_bytes_;
};

double element(Product::Type type, const std::byte* from) {
  if (type == Product::Type::tf32) {
    std::uint32_t bits;
    std::memcpy(&bits, from, 4);
    return std::bit_cast<float>(bits & 0xffffe000u);
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, 2);
  return type == Product::Type::f16 ? to_float(F16{bits}) : to_float(BF16{bits});
}

SumsInFlight& sums_of(Thread& thread, float* registers) {
  return *std::ranges::find(thread.sums, registers, &SumsInFlight::registers);
}

// Where the i-th of a thread's sums belongs in D (64, n).
std::size_t place_in_sums(int thread, int i, int n) {
  const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
  return at(row * n + i / 4 * 8 + thread % 4 * 2 + i % 2);
}

// One product of a warpgroup, whose first thread is `first`.
void multiply(Machine& m, int first, std::size_t number) {
  const auto thread_of = [&](int i) -> Thread& { return m.threads[at(first + i)]; };
  const Product& one = thread_of(0).committed.front()[number];
  const Block& block = m.blocks[at(thread_of(0).block)];
  const bool is_tf32 = one.type == Product::Type::tf32;
  const int depth = is_tf32 ? 8 : 16, bytes = is_tf32 ? 4 : 2, n = one.n;
  constexpr int rows = 64;
  std::vector<double> a(at(rows * depth)), b(at(depth * n)), d(at(rows * n));
  for (int thread = 0; thread < warpgroup_threads; ++thread) {
    const Product& its = thread_of(thread).committed.front()[number];
    if (its.type != one.type || its.n != n || its.add != one.add || !its.a != !one.a ||
        its.a_descriptor != one.a_descriptor || its.b_descriptor != one.b_descriptor)
      fail("threads of a warpgroup begin different products");
    const auto& sums = sums_of(thread_of(thread), its.d).values;
    for (int i = 0; i < n / 2; ++i)
      d[place_in_sums(thread, i, n)] = one.add ? double(sums[at(i)]) : 0;
    if (!its.a) continue;
    const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4;
    for (int i = 0; i < 4; ++i) {
      std::byte word[4];
      std::memcpy(word, its.a + i, 4);
      for (int part = 0; part < 4 / bytes; ++part)
        a[at((row + i % 2 * 8) * depth + (i / 2 * 4 + column) * (4 / bytes) + part)] =
            element(one.type, word + part * bytes);
    }
  }
  const SharedFactor right(m, block, one.b_descriptor, one.b_is_mn_major, bytes);
  for (int k = 0; k < depth; ++k) {
    for (int column = 0; column < n; ++column)
      b[at(k * n + column)] = element(one.type, right.at(column, k));
  }
  if (!one.a) {
    const SharedFactor left(m, block, one.a_descriptor, one.a_is_mn_major, bytes);
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < depth; ++k) a[at(row * depth + k)] = element(one.type, left.at(row, k));
    }
  }
  for (int row = 0; row < rows; ++row) {
    double* const sums = &d[at(row * n)];
    for (int k = 0; k < depth; ++k) {
      const double factor = a[at(row * depth + k)];
      const double* const others = &b[at(k * n)];
      for (int column = 0; column < n; ++column) sums[column] += factor * others[column];
    }
  }
  for (int thread = 0; thread < warpgroup_threads; ++thread) {
    Thread& its = thread_of(thread);
    float* const registers = its.committed.front()[number].d;
    SumsInFlight& sums = sums_of(its, registers);
    for (int i = 0; i < n / 2; ++i)
      sums.values[at(i)] = static_cast<float>(d[place_in_sums(thread, i, n)]);
    if (--sums.products > 0) continue;
    std::ranges::copy(sums.values, registers);
    std::erase_if(its.sums,
                  [=](const SumsInFlight& its_sums) { return its_sums.registers == registers; });
  }
}

// The first batch that all threads of a warpgroup have committed.
void carry_out_batch(Machine& m, int first) {
  const std::size_t products = m.threads[at(first)].committed.front().size();
  for (int i = 0; i < warpgroup_threads; ++i)
    if (m.threads[at(first + i)].committed.front().size() != products)
      fail("threads of a warpgroup commit different batches of products");
  for (std::size_t number = 0; number < products; ++number) multiply(m, first, number);
  for (int i = 0; i < warpgroup_threads; ++i) m.threads[at(first + i)].committed.pop_front();
  const Thread& one = m.threads[at(first)];
  ++m.blocks[at(one.block)].batches_done[at(one.index / warpgroup_threads)];
}

bool has_batch(const Machine& m, int first) {
  for (int i = 0; i < warpgroup_threads; ++i)
    if (m.threads[at(first + i)].committed.empty()) return false;
  return true;
}

bool is_slow_batch(const Machine& m, int first) {
  const Thread& one = m.threads[at(first)];
  const std::uint64_t number = one.batches - one.committed.size() + at(first);
  return std::popcount((m.slow_batches + number) * 0x9e3779b97f4a7c15u) % 8 == 0;
}

// Lets some unit beside the threads do something; false if none has anything to do.
bool step_of_units(Machine& m, bool slow_ones) {
  const auto can = [&](bool slow) { return slow_ones || !slow; };
  std::vector<int> warpgroups;
  const int threads = static_cast<int>(m.threads.size());
  for (int first = 0; first + warpgroup_threads <= threads; first += warpgroup_threads)
    if (has_batch(m, first) && can(is_slow_batch(m, first))) warpgroups.push_back(first);
  std::vector<std::size_t> units;
  for (std::size_t i = 0; i < m.units.size(); ++i)
    if (can(m.units[i].slow)) units.push_back(i);
  if (units.empty() && warpgroups.empty()) return false;
  const std::size_t which = draw(m, units.size() + warpgroups.size());
  if (which >= units.size()) return carry_out_batch(m, warpgroups[which - units.size()]), true;
  UnitWork& unit = m.units[units[which]];
  const std::function<void()> work = std::move(unit.work);
  unit = std::move(m.units.back());
  m.units.pop_back();
  work();
  return true;
}

void begin_in(Machine& m, std::function<void()> work) {
  m.units.push_back({std::move(work), draw(m, 8) == 0});
}

void switch_to(Machine& m, Thread& thread) {
  m.running = &thread;
  const Block& block = m.block();
  threadIdx = {static_cast<unsigned>(thread.index), 0, 0};
  blockIdx = {static_cast<unsigned>(m.first_block + thread.block), 0, 0};
  cuda::block_memory = reinterpret_cast<unsigned char*>(block.shared);
  m.fibers.switch_to(static_cast<int>(&thread - m.threads.data()));
  m.running = nullptr;
  if (m.fault) std::rethrow_exception(std::exchange(m.fault, nullptr));
}

[[noreturn]] void fail_of_waiting(const Machine& m) {
  std::set<std::string> waits;
  for (const Thread& thread : m.threads)
    if (thread.live)
      waits.insert(text("block ", m.first_block + thread.block, " warp ",
                        thread.index / warp_threads, " waits for ", thread.waits_for));
  std::string list;
  for (const std::string& wait : waits) list += (list.empty() ? "" : ", ") + wait;
  throw Error(ErrorCode::device_failure, "threads wait for ever: " + list);
}

void run_to_end(Machine& m) {
  const std::size_t warps = m.threads.size() / warp_threads;
  for (;;) {
    bool any = false, live = false;
    const std::size_t first = draw(m, warps);
    for (std::size_t i = 0; i < warps; ++i) {
      const std::size_t warp = (first + i) % warps;
      for (std::size_t lane = 0; lane < warp_threads; ++lane) {
        Thread& thread = m.threads[warp * warp_threads + lane];
        live |= thread.live;
        if (!thread.live || (thread.waits_for && !(*thread.ready)())) continue;
        any = true;
        thread.waits_for = nullptr;
        switch_to(m, thread);
      }
      if (draw(m, 8) == 0) any |= step_of_units(m, false);
    }
    if (!live) break;
    if (!step_of_units(m, false) && !any && !step_of_units(m, true)) fail_of_waiting(m);
  }
  while (step_of_units(m, true)) {
  }
}

void prepare_blocks(Machine& m, int count) {
  const Launch& launch = m.launch;
  m.blocks = std::vector<Block>(at(count));
  for (Block& block : m.blocks) {
    std::size_t bytes = at(launch.shared_bytes) + shared_alignment;
    block.room = std::make_unique<std::byte[]>(bytes);
    void* begin = block.room.get();
    std::fill_n(block.room.get(), bytes, std::byte{0xff});  // NaN
    block.shared = static_cast<std::byte*>(
        std::align(shared_alignment, at(launch.shared_bytes), begin, bytes));
    block.warps.resize(at(launch.threads / warp_threads));
    block.batches_done.resize(at(launch.threads / warpgroup_threads));
  }
  m.threads = std::vector<Thread>(at(count * launch.threads));
  for (int i = 0; i < count * launch.threads; ++i) {
    m.threads[at(i)].index = i % launch.threads;
    m.threads[at(i)].block = i / launch.threads;
    m.threads[at(i)].live = true;
  }
}

int live_of_thread(void* context, int index) {
  auto& m = *static_cast<Machine*>(context);
  Thread& thread = m.threads[at(index)];
  try {
    m.launch.run(m.launch.parameters);
    if (!thread.open.empty()) fail("a thread ends with products that are not committed");
  } catch (const Abandoned&) {
  } catch (...) {
    m.fault = std::current_exception();
  }
  thread.live = false;
  return Fibers::outside;
}

void run_blocks(Machine& m, int first, int count) {
  m.first_block = first;
  prepare_blocks(m, count);
  m.fibers.begin(static_cast<int>(m.threads.size()), live_of_thread, &m);
  gridDim = {static_cast<unsigned>(m.launch.blocks), 1, 1};
  blockDim = {static_cast<unsigned>(m.launch.threads), 1, 1};
  try {
    run_to_end(m);
  } catch (...) {
    m.abandoned = true;
    for (Thread& thread : m.threads)
      if (thread.live && thread.waits_for) switch_to(m, thread);
    m.abandoned = false;
    m.units.clear();
    throw;
  }
}

}  // namespace

void run(const Launch& launch) {
  Machine& m = machine();
  m.launch = launch;
  m.slow_batches = m.random();
  const int at_once = launch.all_at_once ? launch.blocks : most_blocks_at_once;
  for (int first = 0; first < launch.blocks; first += at_once)
    run_blocks(m, first, std::min(at_once, launch.blocks - first));
}

void fail(const char* what) {
  const Machine& m = machine();
  std::string where;
  if (m.running)
    where = text("block ", m.first_block + m.running->block, ", thread ", m.running->index, ": ");
  throw Error(ErrorCode::device_failure, where + what);
}

void wait_until(const char* what, const std::function<bool()>& ready) {
  Machine& m = machine();
  Thread& self = *m.running;
  if (m.random() % 4 > 0 && ready()) return;
  self.waits_for = what;
  self.ready = &ready;
  m.fibers.switch_to(Fibers::outside);
  if (m.abandoned) throw Abandoned();
}

void together(const char* what, Operation operation, void* operand) {
  Machine& m = machine();
  const Thread& self = *m.running;
  Warp& warp = m.block().warps[at(self.index / warp_threads)];
  if (warp.come > 0 && (warp.operation != operation || std::strcmp(warp.what, what) != 0))
    fail("lanes of a warp do different things");
  warp.operation = operation;
  warp.what = what;
  warp.operands[self.index % warp_threads] = operand;
  if (++warp.come == warp_threads) {
    operation(warp.operands);
    warp.come = 0;
    ++warp.rounds;
    return;
  }
  const std::uint64_t round = warp.rounds;
  wait_until(what, [&] { return warp.rounds != round; });
}

void begin(std::function<void()> work) { begin_in(machine(), std::move(work)); }

void begin_store(std::function<void()> read, std::function<void()> write) {
  Machine& m = machine();
  Thread& self = *m.running;
  ++self.unread_stores;
  ++self.unwritten_stores;
  begin_in(m, [&m, &self, read = std::move(read), write = std::move(write)] {
    read();
    --self.unread_stores;
    begin_in(m, [&self, write] {
      write();
      --self.unwritten_stores;
    });
  });
}

void wait_for_stores(bool only_read) {
  const Thread& self = *machine().running;
  wait_until("its stores", [&self, only_read] {
    return (only_read ? self.unread_stores : self.unwritten_stores) == 0;
  });
}

void arrive_at_named_barrier(int number, int threads, bool waits) {
  NamedBarrier& barrier = machine().block().barriers[number];
  if (barrier.come > 0 && barrier.threads != threads)
    fail("threads come to a barrier with different numbers of threads");
  barrier.threads = threads;
  const std::uint64_t round = barrier.rounds;
  if (++barrier.come == threads) {
    barrier.come = 0;
    ++barrier.rounds;
    return;
  }
  if (waits) wait_until("a named barrier", [&] { return barrier.rounds != round; });
}

std::byte* at_shared_address(std::uint32_t address, int bytes) {
  Machine& m = machine();
  if (address < first_shared_address || address % static_cast<unsigned>(bytes) != 0 ||
      address - first_shared_address + static_cast<unsigned>(bytes) >
          static_cast<unsigned>(m.launch.shared_bytes))
    fail("an access outside shared memory, or one that is not aligned");
  return m.block().shared + (address - first_shared_address);
}

std::uint32_t shared_address_of(const void* memory) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(memory) -
                                    machine().block().shared) +
         first_shared_address;
}

void begin_product(const Product& product) {
  Thread& self = *machine().running;
  self.open.push_back(product);
  const std::size_t numbers = at(product.n / 2);
  const auto found = std::ranges::find(self.sums, product.d, &SumsInFlight::registers);
  if (found != self.sums.end()) {
    ++found->products;
    return;
  }
  self.sums.push_back({product.d, std::vector<float>(product.d, product.d + numbers), 1});
  std::fill_n(product.d, numbers, std::nanf(""));  // nobody may look at them
}

void commit_products() {
  Thread& self = *machine().running;
  self.committed.push_back(std::exchange(self.open, {}));
  ++self.batches;
}

void wait_for_products(int batches_left) {
  Machine& m = machine();
  const Thread& self = *m.running;
  const std::uint64_t& done = m.block().batches_done[at(self.index / warpgroup_threads)];
  wait_until("products",
             [&] { return done + static_cast<unsigned>(batches_left) >= self.batches; });
}

}  // namespace model
}  // namespace rapt
