// An all-to-all that receives where it sends: a peer's part arrives while this rank's own, which
// lies there, is still being read, and nothing orders the two.
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_exchanges_in_place(const GraphScope& scope, Findings& found) {
  for (const Use& read : scope.uses.all()) {
    const Node& node = scope.node(read);
    if (node.exchange.empty() || node.op != "all_to_all" || !read.access->reads()) continue;
    for (const Use& write : scope.uses.all()) {
      if (write.node != read.node || !write.access->writes()) continue;
      if (write.access->address >= read.access->end()) continue;
      if (read.access->address >= write.access->end()) continue;
      Finding finding = finding_at("unordered_access", scope, write);
      finding.why = node_text(scope.graph, write.node) + " sends from " + finding.buffer +
                    " and receives there: what arrives may overwrite what is not sent yet";
      finding.advice = "give the exchange a receive buffer of its own";
      found.push_back(std::move(finding));
    }
  }
}

}  // namespace dcp::audit
