#include "harness/graph_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "audit/audit.hpp"
#include "core/error.hpp"
#include "tests/temp_folder.hpp"

namespace dcp {
namespace {

class GraphFileTest : public testing::Test {
 protected:
  GraphFile read(const std::string& ranks) {
    std::ofstream(path_) << R"({"format": "dcpsim-graph", "version": 1, "ranks": )" << ranks << '}';
    return read_graph_file(path_);
  }

  std::string refusal(const std::string& ranks) {
    try {
      read(ranks);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

 private:
  const test::TempFolder temp_;
  const std::string path_ = (temp_.path() / "graph.json").string();
};

// A staging buffer at 0x1000 and an output at 0x2000; the kernel has both pointers and a count.
std::string one_kernel(const std::string& staging_end, const std::string& accesses = "") {
  return R"([{"allocations": [
    {"name": "staging", "address": 4096, "size_bytes": 256, "born": 1)" +
         staging_end + R"(},
    {"name": "out", "address": 8192, "size_bytes": 64, "born": 2, "role": "output"}],
   "graphs": [{"name": "g", "captured_at": 3, "nodes": [
     {"op": "pack", "arguments": ["0010000000000000", "0020000000000000", "07000000"])" +
         accesses + "}]}]}]";
}

TEST_F(GraphFileTest, TakesWhatArgumentsPointToAsReadAndWritten) {
  const GraphFile file = read(one_kernel(""));
  const audit::Node& node = file.record.ranks.at(0).graphs.at(0).nodes.at(0);
  EXPECT_EQ(file.num_undeclared_nodes, 1u);
  EXPECT_FALSE(node.has_declaration);
  ASSERT_EQ(node.accesses.size(), 2u);
  EXPECT_EQ(node.accesses[0].address, 4096u);
  EXPECT_EQ(node.accesses[0].size_bytes, 256u);
  EXPECT_TRUE(node.accesses[1].reads() && node.accesses[1].writes());
  EXPECT_EQ(node.words.at(2), 7u);
}

TEST_F(GraphFileTest, FindsAStagingBufferThatWasFreedAfterTheCapture) {
  const auto findings = audit::audit(read(one_kernel(R"(, "died": 4)")).record);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, "stale_pointer");
  EXPECT_EQ(findings[0].buffer, "staging");
}

TEST_F(GraphFileTest, TheSoundTwinIsClean) {
  EXPECT_EQ(audit::audit(read(one_kernel("")).record), std::vector<audit::Finding>{});
}

TEST_F(GraphFileTest, MemoryFreedBeforeTheCaptureIsAUseAfterFree) {
  const auto findings = audit::audit(read(one_kernel(R"(, "died": 2)")).record);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, "use_after_free");
}

TEST_F(GraphFileTest, DeclaredAccessesAreKept) {
  const GraphFile file =
      read(one_kernel("", R"(, "accesses": [{"address": 4096, "size_bytes": 16, "mode": "read"},
                            {"address": 8192, "size_bytes": 64, "mode": "write"}])"));
  EXPECT_EQ(file.num_undeclared_nodes, 0u);
  const auto& accesses = file.record.ranks.at(0).graphs.at(0).nodes.at(0).accesses;
  EXPECT_EQ(accesses.at(0).size_bytes, 16u);
  EXPECT_FALSE(accesses.at(0).writes());
}

TEST_F(GraphFileTest, NoTwoRanksHaveOneNumber) {
  const std::string rank = R"("allocations": [], "graphs": []})";
  EXPECT_NE(refusal(R"([{"rank": 3, )" + rank + R"(, {"rank": 3, )" + rank + "]")
                .find("/ranks/1: another rank has the number 3"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"rank": 1, )" + rank + ", {" + rank + "]").find("has the number 1"),
            std::string::npos);
  EXPECT_EQ(refusal(R"([{"rank": 1, )" + rank + R"(, {"rank": 0, )" + rank + "]"), "");
}

TEST_F(GraphFileTest, BytesAreOfOneAllocationAtATime) {
  struct Case {
    std::string first, second, text;
  };
  const std::string overlap =
      "/ranks/0/allocations/1: has bytes of allocation 0, 'a', which is "
      "alive at moment ";
  const Case cases[] = {
      {"100, \"size_bytes\": 50", "149, \"size_bytes\": 1", overlap + "0 too"},
      {"100, \"size_bytes\": 50", "90, \"size_bytes\": 11", overlap + "0 too"},
      {"100, \"size_bytes\": 50", "100, \"size_bytes\": 50, \"born\": 7", overlap + "7 too"},
      {"100, \"size_bytes\": 50, \"died\": 8", "90, \"size_bytes\": 99, \"born\": 7",
       overlap + "7 too"},
      {"100, \"size_bytes\": 50, \"died\": 7", "100, \"size_bytes\": 50, \"born\": 7", ""},
      {"100, \"size_bytes\": 50", "150, \"size_bytes\": 9", ""},
      {"100, \"size_bytes\": 50", "50, \"size_bytes\": 50", ""},
  };
  for (const Case& each : cases) {
    const std::string found =
        refusal(R"([{"graphs": [], "allocations": [{"name": "a", "address": )" + each.first +
                R"(}, {"address": )" + each.second + "}]}]");
    EXPECT_EQ(found.substr(std::min(found.find("/ranks"), found.size())), each.text)
        << each.first << "; " << each.second;
  }
}

TEST_F(GraphFileTest, AFieldThatIsThereTwiceIsRefusedWithItsObject) {
  EXPECT_NE(refusal(R"([{"allocations": [{"address": 1, "size_bytes": 1},
                                         {"address": 9, "size_bytes": 1, "address": 20}],
                       "graphs": []}])")
                .find(": error: /ranks/0/allocations/1: the field 'address' is there twice"),
            std::string::npos);
  EXPECT_NE(refusal(R"([], "ranks": [{"allocations": [], "graphs": []}])")
                .find(":1:1: error: the field 'ranks' is there twice"),
            std::string::npos);
  EXPECT_EQ(refusal(R"([{"allocations": [], "graphs": []}, {"allocations": [], "graphs": []}])"),
            "");
}

TEST_F(GraphFileTest, TheFirstNodeHasNoneToDependOn) {
  EXPECT_NE(refusal(R"([{"allocations": [], "graphs": [{"name": "g", "captured_at": 0,
                       "nodes": [{"op": "x", "dependencies": [{"node": 0}]}]}]}])")
                .find("/nodes/0/dependencies/0: the first node has no earlier one to depend on"),
            std::string::npos);
}

TEST_F(GraphFileTest, NodesDependOnEarlierOnes) {
  const auto depends_on = [&](const std::string& node) {
    const std::string found = refusal(R"([{"allocations": [], "graphs": [{"name": "g",
                       "captured_at": 0, "nodes": [{"op": "x"}, {"op": "x", "dependencies": [)" +
                                      node + "]}]}]}]");
    return found.substr(std::min(found.find("/dependencies/0"), found.size()));
  };
  EXPECT_EQ(depends_on("0"), "");
  EXPECT_EQ(depends_on("1"), "/dependencies/0: node 1 depends on itself");
  EXPECT_EQ(depends_on(R"({"node": 1})"), "/dependencies/0/node: node 1 depends on itself");
  EXPECT_EQ(depends_on("2"),
            "/dependencies/0: node 1 depends on node 2, which is not an earlier one");
  EXPECT_EQ(depends_on("-1"), "/dependencies/0: an integer in 0 .. 49999 expected, -1 found");
}

TEST_F(GraphFileTest, RefusesWhatItDoesNotKnowWithItsPlace) {
  EXPECT_NE(refusal(R"([{"allocations": [], "graphs": [{"name": "g", "captured_at": 0,
                       "nodes": [{"op": "x", "dependencies": [0]}]}]}])")
                .find("/ranks/0/graphs/0/nodes/0/dependencies/0"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"allocations": [{"adress": 1, "size_bytes": 1}], "graphs": []}])")
                .find("did you mean 'address'"),
            std::string::npos);
  EXPECT_NE(refusal(one_kernel(R"(, "ending": "freed")")).find("needs 'died'"), std::string::npos);
  EXPECT_NE(refusal(R"([{"allocations": [], "graphs": [{"name": "g", "captured_at": 0,
                       "nodes": [{"op": "x", "arguments": ["0g"]}]}]}])")
                .find("hexadecimal"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"allocations": [{"address": 9223372036854775807, "size_bytes": 2}],
                       "graphs": []}])")
                .find("past the end of memory"),
            std::string::npos);
  const std::string graph = R"({"name": "g", "captured_at": 0, "nodes": []})";
  EXPECT_NE(refusal(R"([{"allocations": [], "graphs": [)" + graph + ", " + graph + "]}]")
                .find("/ranks/0/graphs/1/name"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"rank": 5000000000, "allocations": [], "graphs": []}])").find("/rank"),
            std::string::npos);
  EXPECT_NE(refusal("[]").find("there must be a rank"), std::string::npos);
}

}  // namespace
}  // namespace dcp
