# Compiler flags of every target, carried by one INTERFACE library.
add_library(dcp_flags INTERFACE)
target_compile_features(dcp_flags INTERFACE cxx_std_20)
target_include_directories(dcp_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(CMAKE_CXX_EXTENSIONS OFF)

# For C++ sources only: nvcc has its own flags (cuda.cmake).
function(dcp_host_options)
  target_compile_options(dcp_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGV}>")
endfunction()

# -ffp-contract=off: the same bits on every machine, whatever fused instructions it has.
# -Wno-restrict: g++ 12 warns falsely about std::string (GCC bug 105651).
set(gnu_options "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(gnu_options -Wno-restrict)
endif()
dcp_host_options(-Wall -Wextra -Wshadow ${gnu_options} -ffp-contract=off)
if(DCPSIM_WERROR)
  dcp_host_options(-Werror)
endif()

if(DCPSIM_ARCH STREQUAL "auto")
  include(CheckCXXSourceRuns)
  set(CMAKE_REQUIRED_FLAGS "-march=x86-64-v3")
  check_cxx_source_runs("int main() { return !(__builtin_cpu_supports(\"avx2\") &&
    __builtin_cpu_supports(\"fma\") && __builtin_cpu_supports(\"bmi2\")); }" DCPSIM_HAS_X86_64_V3)
  unset(CMAKE_REQUIRED_FLAGS)
  if(DCPSIM_HAS_X86_64_V3)
    dcp_host_options(-march=x86-64-v3)
  endif()
elseif(DCPSIM_ARCH)
  dcp_host_options(-march=${DCPSIM_ARCH})
endif()

if(DCPSIM_SANITIZE)
  dcp_host_options(-fsanitize=${DCPSIM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dcp_flags INTERFACE -fsanitize=${DCPSIM_SANITIZE})
endif()
