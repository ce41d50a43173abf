// NaN, infinities and huge scores on every CPU kernel.
#include "tests/conformance/not_a_number.hpp"

namespace rapt::test {
namespace {

TEST(NotANumber, ReachesTheRowsThatSeeItAndNoOther) {
  const std::set<std::string> ran = expect_special_values(two_threads());
  expect_every_kernel_in({ran.begin(), ran.end()}, Operation::forward);
}

}  // namespace
}  // namespace rapt::test
