// How many processors a container's quota leaves, read from files as the kernel shows them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/cpu/quota.hpp"

namespace rapt {
namespace {

namespace fs = std::filesystem;

class Quota : public testing::Test {
 protected:
  Quota() { fs::create_directories(root_); }
  ~Quota() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  std::optional<int> read() const { return processor_quota(root_); }

 private:
  fs::path root_ =
      fs::path(testing::TempDir()) /
      ("quota_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(Quota, without_control_groups_there_is_none) { EXPECT_EQ(read(), std::nullopt); }

TEST_F(Quota, a_part_of_a_processor_counts_as_one) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(read(), std::nullopt);
  write("sys/fs/cgroup/cpu.max", "20000 100000");
  EXPECT_EQ(read(), 1);
  write("sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(read(), 2);
  write("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_EQ(read(), 4);
}

TEST_F(Quota, the_smallest_on_the_way_to_the_root_counts) {
  write("proc/self/cgroup", "0::/slice/service");
  write("sys/fs/cgroup/slice/service/cpu.max", "800000 100000");
  write("sys/fs/cgroup/slice/cpu.max", "300000 100000");
  EXPECT_EQ(read(), 3);
  write("sys/fs/cgroup/slice/service/cpu.max", "200000 100000");
  EXPECT_EQ(read(), 2);
}

TEST_F(Quota, the_first_version_of_control_groups_has_a_file_for_each_number) {
  write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:cpuset:/");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "250000");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000");
  EXPECT_EQ(read(), 3);
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(read(), std::nullopt);
}

TEST_F(Quota, a_container_that_sees_its_own_group_as_the_top_finds_it_there) {
  write("proc/self/cgroup", "3:cpuacct,cpu:/docker/abc");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(read(), 1);
}

TEST_F(Quota, files_that_make_no_sense_are_passed_over) {
  write("proc/self/cgroup", "0\n::\n0::/\n");
  write("sys/fs/cgroup/cpu.max", "many few");
  EXPECT_EQ(read(), std::nullopt);
  write("sys/fs/cgroup/cpu.max", "100000 0");
  EXPECT_EQ(read(), std::nullopt);
}

}  // namespace
}  // namespace rapt
