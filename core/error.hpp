// The exceptions of the product. Destructors never throw; a broken invariant is an assert.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace dcp {

// Where something was written. Lines and columns count from 1; 0 means unknown.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;

  // "file:line:column", without the parts that are unknown.
  std::string text() const;
};

// Bad input: a scenario, a vector file or a command line. Ends the program with exit code 2.
// what() is "file:line:column: error: message" in one printable line, whatever the parts hold.
class InputError : public std::runtime_error {
 public:
  InputError(Place place, std::string_view message);

  const Place& place() const { return place_; }
  const std::string& message() const { return message_; }

 private:
  Place place_;
  std::string message_;
};

// A step is refused: nothing was launched, buffers are as before. `kind` is an error identifier of
// docs/KINDS.md ("capacity", "qsl_not_monotone", ...).
class StepError : public std::runtime_error {
 public:
  StepError(std::string_view kind, std::string_view why);

  const std::string& kind() const { return kind_; }
  const std::string& why() const { return why_; }

 private:
  std::string kind_;
  std::string why_;
};

// Something went wrong while a step ran ("deadlock", "mismatch", ...). `rank` is -1 where no single
// rank is to blame.
class Failure : public std::runtime_error {
 public:
  Failure(std::string_view kind, int rank, std::string_view why);

  const std::string& kind() const { return kind_; }
  const std::string& why() const { return why_; }
  int rank() const { return rank_; }

 private:
  std::string kind_;
  std::string why_;
  int rank_;
};

}  // namespace dcp
