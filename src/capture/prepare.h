// What the first captured call of a process initialises, and what forks of the process need.
#pragma once

namespace tenon::capture {

// Takes the dispatch keys, intercepts backwards, and initialises static variables here and in libtorch. A fork waits for it, because the
// child of a fork in the middle could never complete it. Cheap after the first call.
void prepare_process();

}  // namespace tenon::capture
