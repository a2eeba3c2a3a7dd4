// What stands behind Fields of the public header.
#pragma once

#include <tenon/family.h>

#include <memory>
#include <set>

#include "formats/config.h"

namespace tenon {

struct Fields::Impl {
  formats::Config config;
  std::shared_ptr<std::set<std::string>> ignored;  // full names
  std::string path;
};

namespace models {

std::shared_ptr<const Fields::Impl> make_fields(formats::Config config);
// Throws by name if a field was neither read nor ignored and says anything.
void refuse_unread(const Fields::Impl& impl);

}  // namespace models
}  // namespace tenon
