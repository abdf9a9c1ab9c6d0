// The operations of both gathers under names of their own, so that a scenario may hold back or
// leave out those of one exchange.
#pragma once

#include "kernels/direct_advance.hpp"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_read_rows.hpp"
#include "kernels/direct_send_rows.hpp"
#include "kernels/direct_store_rows.hpp"
#include "kernels/direct_take_rows.hpp"
#include "kernels/direct_wait.hpp"

namespace dcp {

struct DirectQueryAdvance : DirectAdvance {
  static constexpr std::string_view kName = "direct_query_advance";
};
struct DirectQueryStore : DirectStoreRows {
  static constexpr std::string_view kName = "direct_query_store";
};
struct DirectQueryPublish : DirectPublish {
  static constexpr std::string_view kName = "direct_query_publish";
};
struct DirectQueryWait : DirectWait {
  static constexpr std::string_view kName = "direct_query_wait";
};
struct DirectQuerySend : DirectSendRows {
  static constexpr std::string_view kName = "direct_query_send";
};

struct DirectKvAdvance : DirectAdvance {
  static constexpr std::string_view kName = "direct_kv_advance";
};
struct DirectKvStore : DirectStoreRows {
  static constexpr std::string_view kName = "direct_kv_store";
};
struct DirectKvPublish : DirectPublish {
  static constexpr std::string_view kName = "direct_kv_publish";
};
struct DirectKvWait : DirectWait {
  static constexpr std::string_view kName = "direct_kv_wait";
};
struct DirectKvRead : DirectReadRows {
  static constexpr std::string_view kName = "direct_kv_read";
};
struct DirectKvSend : DirectSendRows {
  static constexpr std::string_view kName = "direct_kv_send";
};
struct DirectKvTake : DirectTakeRows {
  static constexpr std::string_view kName = "direct_kv_take";
};

}  // namespace dcp
