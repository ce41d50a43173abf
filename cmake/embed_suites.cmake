# Writes built_in_suites() (cli/bench/suite.hpp) from the files of bench/suites, so that the program carries its suites with it.
#   cmake -DFOLDER=bench/suites -DOUTPUT=suites.cpp -P embed_suites.cmake
file(GLOB files ${FOLDER}/*.txt)
set(entries "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  string(APPEND entries "      {\"${name}\", R\"suite(${content})suite\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#include \"cli/bench/suite.hpp\"

namespace rapt::cli {

std::vector<Suite> built_in_suites() {
  return {
@entries@  };
}

}  // namespace rapt::cli
")
file(TOUCH ${OUTPUT})
