#include "comm/process_rounds.hpp"

#include "comm/process_group.hpp"
#include "runtime/api_error.hpp"

namespace dcp {

namespace {

// Beyond the bound, before another process counts as lost: they are not at the same place at the
// same time.
constexpr std::chrono::seconds kGrace{10};
// Other processes do the same work, and may take so many times as long for it.
constexpr int kSlowness = 10;

// What a process says of a round: nothing, or the kind and the words of what it threw.
std::string text_of(const std::exception_ptr& thrown) {
  if (!thrown) return "";
  try {
    std::rethrow_exception(thrown);
  } catch (const StepError& error) {
    return "S" + error.kind() + "\n" + error.why();
  } catch (const Failure& failure) {
    return "F" + failure.kind() + "\n" + failure.why();
  } catch (const ApiError& error) {
    return "S" + std::string(error.kind()) + "\n" + error.what();
  } catch (const std::exception& error) {
    return "Frank_lost\n" + std::string(error.what());
  }
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string milliseconds_text(std::chrono::steady_clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

// What processes say of themselves, one after the other.
std::string words_of(const std::vector<std::vector<std::byte>>& all) {
  std::string words;
  for (const auto& each : all) {
    const std::string said = text_of(each);
    if (said.empty()) continue;
    words += (words.empty() ? "" : "; ") + said.substr(said.find('\n') + 1);
  }
  return words;
}

std::vector<int> silent_in(const std::vector<std::vector<std::byte>>& all) {
  std::vector<int> silent;
  for (std::size_t process = 0; process < all.size(); ++process) {
    if (all[process].empty()) silent.push_back(static_cast<int>(process));
  }
  return silent;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks, const std::string& one,
                       const std::string& many) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text + " " + (ranks.size() == 1 ? one : many);
}

ProcessRounds::ProcessRounds(std::chrono::milliseconds wait_bound,
                             std::chrono::milliseconds work_bound)
    : wait_bound_(wait_bound), work_bound_(work_bound) {
  if (!ProcessGroup::get().is_broken()) return;
  throw Failure("rank_lost", -1, "a rank was lost in a run before this one: none can be started");
}

void ProcessRounds::require_going_on() const {
  if (over_) throw Failure(*over_);
}

ProcessRounds::Clock::time_point ProcessRounds::end_of_work() const {
  const auto now = Clock::now();
  return now + wait_bound_ + work_bound_ + kGrace + kSlowness * (now - last_met_);
}

// Another process may still be at work before it begins to wait, and waits until it finds a fault.
ProcessRounds::Clock::time_point ProcessRounds::end_of_wait() const {
  return end_of_work() + wait_bound_;
}

ProcessRounds::Clock::time_point ProcessRounds::end_of_vain_wait() const {
  return Clock::now() + wait_bound_ + kGrace;
}

// What every process gave. Failure rank_lost, for good, where one does not answer; where what they
// gave is why they fell short, that is part of the reason.
ProcessRounds::OfProcesses ProcessRounds::meet(std::span<const std::byte> mine,
                                               Clock::time_point end, bool says_why) {
  require_going_on();
  const auto begin = Clock::now();
  const auto answers = ProcessGroup::get().all_gather(mine, end);
  last_met_ = Clock::now();
  std::vector<std::vector<std::byte>> all;
  std::vector<int> silent;
  for (std::size_t process = 0; process < answers.size(); ++process) {
    if (!answers[process]) silent.push_back(static_cast<int>(process));
    all.push_back(answers[process].value_or(std::vector<std::byte>()));
  }
  if (silent.empty()) return all;
  const std::string others = says_why ? words_of(all) : "";
  over_ = Failure("rank_lost", silent.front(),
                  ranks_text(silent, "does", "do") + " not answer (killed, stopped or hanging), " +
                      "waited for " + milliseconds_text(last_met_ - begin) +
                      (others.empty() ? "" : "; " + others));
  throw Failure(*over_);
}

ProcessRounds::OfProcesses ProcessRounds::share(std::span<const std::byte> mine,
                                                Clock::time_point end) {
  return meet(mine, end, false);
}

// Throws in every process what one that fell short threw: the words of all of them, but where a
// step is refused those of the first.
void ProcessRounds::agree(const std::exception_ptr& thrown, Clock::time_point end) {
  const std::string mine = text_of(thrown);
  const auto all = meet(std::as_bytes(std::span(mine)), end, true);
  if (thrown && all.size() == 1) std::rethrow_exception(thrown);
  for (std::size_t process = 0; process < all.size(); ++process) {
    const std::string said = text_of(all[process]);
    if (said.empty()) continue;
    const std::size_t end_of_kind = said.find('\n');
    const std::string kind = said.substr(1, end_of_kind - 1);
    if (said[0] == 'F') {
      const std::vector<int> done = silent_in(all);
      throw Failure(
          kind, static_cast<int>(process),
          words_of(all) +
              (done.empty() ? "" : "; " + ranks_text(done, "has", "have") + " nothing left to do"));
    }
    if (thrown) std::rethrow_exception(thrown);
    throw StepError(kind,
                    "process " + std::to_string(process) + ": " + said.substr(end_of_kind + 1));
  }
}

}  // namespace dcp
