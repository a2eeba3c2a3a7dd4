#include "dist/launch.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace tenon::dist {
namespace {

[[noreturn]] void refuse(Flag flag, const std::string& expected) {
  throw UserError(ErrorCode::config, std::string("the environment variable ") + flag_name(flag) + " is " + shown(flag_text(flag)) +
                                         ", must be " + expected + ".");
}

int read_number(Flag flag, int otherwise, int min, int max) {
  std::optional<std::string> text = read_text(flag);
  if (!text) return otherwise;
  int value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < min || value > max)
    refuse(flag, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return value;
}

}  // namespace

std::optional<std::string> read_text(Flag flag) {
  const char* text = flag_text(flag);
  if (!text || !*text) return std::nullopt;
  return text;
}

std::optional<bool> read_switch(Flag flag) {
  const char* text = flag_text(flag);
  if (!text) return std::nullopt;
  std::string lower = lower_case(text);
  for (const char* yes : {"y", "yes", "t", "true", "on", "1"})
    if (lower == yes) return true;
  for (const char* no : {"n", "no", "f", "false", "off", "0"})
    if (lower == no) return false;
  refuse(flag, "true or false");
}

Launch read_launch() {
  constexpr int kMaxRanks = 1 << 20;
  Launch out;
  out.size = read_number(Flag::world_size, 1, 1, kMaxRanks);
  if (out.size > 1 && !read_text(Flag::rank))
    throw UserError(ErrorCode::config, "WORLD_SIZE is set but RANK is not. Start the job by torchrun, or set RANK in each process.");
  out.rank = read_number(Flag::rank, 0, 0, out.size - 1);
  out.local_rank = read_number(Flag::local_rank, 0, 0, kMaxRanks);
  out.attempt = read_number(Flag::restart_count, 0, 0, kMaxRanks);
  out.address = read_text(Flag::master_address).value_or(out.address);
  out.port = static_cast<uint16_t>(read_number(Flag::master_port, out.port, 1, 65535));
  out.has_agent_store = read_switch(Flag::agent_store).value_or(false);
  return out;
}

}  // namespace tenon::dist
