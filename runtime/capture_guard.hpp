// Ends a capture on every path, so that a throw inside never leaves the stream capturing.
#pragma once

#include "runtime/runtime.hpp"

namespace dcp {

class CaptureGuard {
 public:
  CaptureGuard(Runtime& runtime, Stream stream, CaptureMode mode)
      : runtime_(runtime), stream_(stream) {
    runtime_.begin_capture(stream_, mode);
  }
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;

  ~CaptureGuard() {
    if (!open_) return;
    try {
      runtime_.destroy(runtime_.end_capture(stream_));
    } catch (...) {
      // The capture had been invalidated, or memory is out; ending it was all that was wanted.
    }
  }

  Graph end() {
    open_ = false;
    return runtime_.end_capture(stream_);
  }

 private:
  Runtime& runtime_;
  Stream stream_;
  bool open_ = true;
};

}  // namespace dcp
