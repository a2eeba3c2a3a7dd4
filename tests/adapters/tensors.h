// Reads and writes safetensors files for the programs of this folder.
#pragma once

#include <ATen/ops/empty.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/directory.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/weights.h"

namespace tenon {

inline std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& path) {
  formats::Directory directory(path.parent_path().string());
  formats::Safetensors file(std::make_shared<const formats::MappedFile>(directory.map(path.filename().string())));
  std::map<std::string, at::Tensor> out;
  for (size_t i = 0; i < file.size(); ++i) {
    formats::TensorView view = file.tensor(i);
    at::Tensor tensor = at::empty(view.shape, *models::scalar_type(view.dtype));
    std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
    out.emplace(view.name, tensor);
  }
  return out;
}

inline void write_tensors(const std::map<std::string, at::Tensor>& tensors, const std::string& directory, const std::string& name) {
  std::vector<formats::TensorView> views;
  for (const auto& [key, tensor] : tensors) views.push_back(models::view_of(key, tensor));
  formats::write_safetensors(formats::Directory(directory), name, views, formats::Metadata{{"format", "pt"}});
}

}  // namespace tenon
