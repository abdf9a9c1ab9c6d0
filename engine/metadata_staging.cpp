#include "engine/metadata_staging.hpp"

#include "core/poison.hpp"

namespace dcp {

std::byte* MetadataStaging::next_pinned() {
  Buffer& staging = pinned_[next_];
  if (staging.data == nullptr) {
    staging = runtime_.allocate_pinned("metadata_staging", size_bytes_);
    poison(staging.data, staging.size_bytes);  // what lies between arrays goes up with them
  }
  next_ = 1 - next_;
  return staging.data;
}

void MetadataStaging::begin(const Upload& upload) {
  copies_.clear();
  used_ = 0;
  if (!upload.stream()) {
    staging_ = next_pinned();
    return;
  }
  own_.resize(size_bytes_);
  poison(own_.data(), own_.size());
  staging_ = own_.data();
}

// A buffer that was given back is nobody's to fill along with others.
std::byte* MetadataStaging::place(const Buffer& target, std::size_t size_bytes) {
  const bool is_live = runtime_.ledger().at(target.id).live;
  const bool follows = is_live && !copies_.empty() && copies_.back().is_whole &&
                       copies_.back().to + (used_ - copies_.back().offset) == target.data;
  if (!follows) {
    copies_.push_back({.to = target.data, .offset = used_, .size_bytes = 0, .is_whole = false});
  }
  Copy& copy = copies_.back();
  copy.size_bytes = used_ + size_bytes - copy.offset;
  copy.is_whole = is_live && size_bytes == target.size_bytes;
  std::byte* const to = staging_ + used_;
  used_ += aligned_part(size_bytes);
  return to;
}

void MetadataStaging::copy(Stream stream, Upload& upload) const {
  for (const Copy& each : copies_) {
    if (upload.stream()) {
      upload.write(each.to, staging_ + each.offset, each.size_bytes);
    } else {
      runtime_.copy(stream, each.to, staging_ + each.offset, each.size_bytes);
    }
  }
}

}  // namespace dcp
