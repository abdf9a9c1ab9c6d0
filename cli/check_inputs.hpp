// What `check` reads: vector files, and dumps of engines, of which one may be several files.
#pragma once

#include <string>
#include <vector>

namespace dcp {

struct CheckInput {
  std::string path;                // shown; of a dump in several files, that of its lowest rank
  std::string name;                // without folder, extension and rank
  bool is_dump = false;            // safetensors
  bool per_rank = false;           // files named NAME.rank-<r>.safetensors
  std::vector<std::string> files;  // in rank order where per_rank, else one

  // Throws InputError where ranks 0 .. files.size() - 1 are not all there.
  void require_all_ranks() const;

  std::vector<int> ranks = {};  // of `files`
};

// In the order of `files`, those of one dump joined. What `run --dump` writes beside the files of
// ranks, NAME.inputs and NAME.reference, is no input of its own.
std::vector<CheckInput> check_inputs(const std::vector<std::string>& files);

}  // namespace dcp
