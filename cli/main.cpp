// The `rapt` program.
#include "cli/program.hpp"

int main(int argc, char** argv) { return rapt::cli::run_program(argc, argv); }
