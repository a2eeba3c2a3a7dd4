#include "tenon/control.h"

#include "base/counters.h"
#include "capture/listener.h"
#include "driver/region.h"
#include "runtime/packs.h"

namespace tenon {
namespace {

std::atomic<Stance> g_stance{Stance::compile};

}  // namespace

void set_stance(Stance stance) { g_stance = stance; }
Stance stance() { return g_stance; }

Stats stats() {
  const ProcessCounters& c = counters();
  return {c.calls,          c.served,  c.replayed, c.recorded,    c.plain,
          c.graphs,         c.flushes, c.verified, c.quarantined, runtime::pack_bytes(),
          c.internal_errors};
}

void set_pack_limit(size_t bytes) { runtime::set_pack_limit(bytes); }

namespace detail {

void reset(Region& region) { region.reset(); }
void disable_on_this_thread(bool on) { capture::pause_listening(on); }

}  // namespace detail
}  // namespace tenon
