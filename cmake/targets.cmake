find_package(yaml-cpp REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(nlohmann_json REQUIRED)
find_package(benchmark REQUIRED)

# One library per folder, of every source in it and its subfolders; main.cpp and
# host_bench.cpp are programs. What is in a folder named cuda/ needs the CUDA backend.
function(dcp_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${folder}/*.cpp ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
  list(FILTER sources EXCLUDE REGEX "/(main|host_bench)\\.cpp$")
  if(NOT DCPSIM_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "/cuda/")
  endif()
  add_library(dcp_${folder} STATIC ${sources})
  target_link_libraries(dcp_${folder} PUBLIC dcp_flags ${ARGN})
  # Several files at a time where headers are most of the work.
  if(DCPSIM_UNITY AND folder MATCHES "^(core|engine|harness|audit|cli)$")
    set_target_properties(dcp_${folder} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()
