// The loss curve of a training as a drawing.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tenon::train {

// Returns an SVG with the training loss, and the evaluation loss if there is one, over the steps of the log.
std::string loss_curve(const std::vector<std::map<std::string, double>>& log_history);

}  // namespace tenon::train
