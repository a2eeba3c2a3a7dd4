// The implementation of the public class Fields.
#pragma once

#include <tenon/family.h>

#include <memory>
#include <set>

#include "formats/config.h"

namespace tenon {

struct Fields::Impl {
  formats::Config config;
  std::shared_ptr<std::set<std::string>> ignored;  // Full names of fields that are not checked.
  std::string path;
};

namespace models {

std::shared_ptr<const Fields::Impl> make_fields(formats::Config config);
// Ignores the fields of an object that do not change what any model computes. make_fields does so at the top.
void ignore_harmless(const Fields& fields);
// Throws UserError if a field was neither read nor ignored and has a value other than null, false or empty.
void refuse_unread(const Fields::Impl& impl);

}  // namespace models
}  // namespace tenon
