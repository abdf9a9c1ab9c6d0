#include "cli/backend_text.hpp"

namespace dcp {

std::string backend_text(const BackendChoice& choice) {
  std::string text(name(choice.backend));
  text += " backend";
  const Machine machine = machine_of(choice);
  if (machine.gpus.empty()) return text;
  text += ", comm " + std::string(comm_name(choice));
  if (!machine.nccl.empty()) text += " " + machine.nccl;
  return text + ", " + machine.gpus;
}

}  // namespace dcp
