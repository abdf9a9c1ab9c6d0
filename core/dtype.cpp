#include "core/dtype.hpp"

namespace dcp {

float load_element(const void* data, DType dtype, std::size_t index) {
  return dispatch_any_dtype(
      dtype, [&]<class T>() { return to_float(static_cast<const T*>(data)[index]); });
}

void store_element(void* data, DType dtype, std::size_t index, float value) {
  dispatch_any_dtype(dtype,
                     [&]<class T>() { static_cast<T*>(data)[index] = from_float<T>(value); });
}

float round_to(DType dtype, float value) {
  return dispatch_any_dtype(dtype, [&]<class T>() { return to_float(from_float<T>(value)); });
}

void round_to(DType dtype, std::span<float> values) {
  for (float& value : values) value = round_to(dtype, value);
}

}  // namespace dcp
