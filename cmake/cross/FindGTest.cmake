# GoogleTest for a chip that the installed libgtest was not built for: compiled from the sources
# that Debian's googletest package ships.
find_path(GTest_SOURCE_DIR src/gtest-all.cc PATHS /usr/src/googletest/googletest)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GTest REQUIRED_VARS GTest_SOURCE_DIR)

if(GTest_FOUND AND NOT TARGET GTest::gtest)
  find_package(Threads REQUIRED)
  add_library(gtest STATIC ${GTest_SOURCE_DIR}/src/gtest-all.cc)
  target_include_directories(gtest SYSTEM PUBLIC ${GTest_SOURCE_DIR}/include
                                          PRIVATE ${GTest_SOURCE_DIR})
  target_compile_options(gtest PRIVATE -O0) # what it does is not worth optimising
  target_link_libraries(gtest PUBLIC Threads::Threads)
  add_library(gtest_main STATIC ${GTest_SOURCE_DIR}/src/gtest_main.cc)
  target_link_libraries(gtest_main PUBLIC gtest)
  add_library(GTest::gtest ALIAS gtest)
  add_library(GTest::gtest_main ALIAS gtest_main)
endif()
