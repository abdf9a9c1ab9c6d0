#include "core/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/error.hpp"

namespace dcp {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

[[noreturn]] void refuse_file(const std::string& path, int error_number) {
  throw InputError({path}, "cannot be read: " + std::generic_category().message(error_number));
}

class Descriptor {
 public:
  // O_NONBLOCK: opening a pipe without a writer would wait for one.
  explicit Descriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
    if (number_ < 0) refuse_file(path, errno);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(number_); }

  int number() const { return number_; }

 private:
  int number_;
};

// Some devices do something when they are opened, and a socket cannot be: asked before opening.
void require_regular_file(const std::string& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) throw InputError({path}, "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) throw InputError({path}, "is not a regular file");
}

}  // namespace

std::string read_input_file(const std::string& path, std::size_t max_size_bytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) refuse_file(path, errno);
  require_regular_file(path, status);
  const Descriptor file(path);
  if (fstat(file.number(), &status) != 0) refuse_file(path, errno);
  require_regular_file(path, status);  // the name may stand for something else by now

  // The size is no guide: files below /proc say 0.
  std::string bytes;
  while (bytes.size() <= max_size_bytes) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + std::min(kBlockBytes, max_size_bytes + 1 - begin));
    ssize_t count = 0;
    do {
      count = read(file.number(), bytes.data() + begin, bytes.size() - begin);
    } while (count < 0 && errno == EINTR);
    if (count < 0) refuse_file(path, errno);
    bytes.resize(begin + static_cast<std::size_t>(count));
    if (count == 0) break;
  }
  return bytes;
}

}  // namespace dcp
