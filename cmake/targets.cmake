find_package(yaml-cpp REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(nlohmann_json REQUIRED)

# One library per folder, of every source in it and its subfolders; main.cpp files are programs.
function(dcp_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(dcp_${folder} STATIC ${sources})
  target_link_libraries(dcp_${folder} PUBLIC dcp_flags ${ARGN})
endfunction()
