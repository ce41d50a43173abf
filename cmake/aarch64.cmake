# Toolchain: 64-bit Arm with Debian's cross compiler (g++-aarch64-linux-gnu), tests under qemu-user.
# That compiler searches /usr/include after the headers of its own C library, so libraries that are
# all headers come from the host's packages; what else the build needs is in cmake/cross.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/cross)
