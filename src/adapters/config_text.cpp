#include "adapters/config_text.h"

#include <map>

namespace tenon::adapters {

namespace {

OrderedJson sorted(const OrderedJson& value) {
  if (!value.is_object()) return value;
  std::map<std::string, OrderedJson> by_name;
  for (const auto& [key, field] : value.items()) by_name[key] = key == "rank_pattern" || key == "alpha_pattern" ? field : sorted(field);
  OrderedJson out = OrderedJson::object();
  for (auto& [key, field] : by_name) out[key] = std::move(field);
  return out;
}

}  // namespace

OrderedJson json_of(const ModuleSelector& modules) {
  return modules.pattern().empty() ? list_or_null(modules.names()) : OrderedJson(modules.pattern());
}

OrderedJson json_of(const TokenIndices& tokens) {
  if (tokens.by_layer().empty()) return list_or_null(tokens.ids());
  OrderedJson out = OrderedJson::object();
  for (const auto& [layer, ids] : tokens.by_layer()) out[layer] = ids;
  return out;
}

OrderedJson json_of(const IntegerOrReal& number) {
  return std::visit([](auto value) { return OrderedJson(value); }, number);
}

OrderedJson json_of(const BoolOrText& value) {
  return std::visit([](const auto& given) { return OrderedJson(given); }, value);
}

OrderedJson json_of(const RankPattern& pattern) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [key, rank] : pattern) out[key] = rank;
  return out;
}

OrderedJson json_of(const AlphaPattern& pattern) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [key, alpha] : pattern) out[key] = json_of(alpha);
  return out;
}

std::string config_text(const OrderedJson& config) {
  return sorted(config).dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace);
}

}  // namespace tenon::adapters
