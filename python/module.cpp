// torch_tenon._C: graphs of Dynamo, compiled by Tenon.
#include <tenon/control.h>
#include <tenon/error.h>
#include <tenon/version.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "driver/imported_graph.h"

namespace {

namespace py = pybind11;

// A compiled graph that is called with one list, which it empties.
class Graph {
 public:
  // `arguments` has, for each argument of a call, -1 for a tensor, the index of a symbol, or -2 for one that is not used; `constants`
  // follow the arguments as inputs. `results` has the index of an output, or -1 for None.
  Graph(const std::string& text, const std::map<std::string, std::string>& settings, bool keeps_weights, std::vector<int64_t> arguments,
        std::vector<at::Tensor> constants, std::vector<int64_t> results)
      : graph_(text, options_of(settings), keeps_weights),
        arguments_(std::move(arguments)),
        constants_(std::move(constants)),
        results_(std::move(results)) {
    for (int64_t argument : arguments_) symbols_ = std::max<size_t>(symbols_, static_cast<size_t>(std::max<int64_t>(argument + 1, 0)));
  }

  PyObject* run(PyObject* list) const {
    HANDLE_TH_ERRORS
    TORCH_CHECK_TYPE(PyList_Check(list), "a graph is called with a list of arguments");
    TORCH_CHECK(PyList_GET_SIZE(list) == static_cast<Py_ssize_t>(arguments_.size()), "a graph of ", arguments_.size(), " arguments got ",
                PyList_GET_SIZE(list));
    std::vector<at::Tensor> inputs;
    inputs.reserve(arguments_.size() + constants_.size());
    std::vector<int64_t> symbols(symbols_);
    for (size_t i = 0; i < arguments_.size(); ++i) {
      PyObject* argument = PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i));
      if (arguments_[i] == kTensor) {
        TORCH_CHECK_TYPE(THPVariable_Check(argument), "argument ", i, " of a graph must be a tensor");
        inputs.push_back(THPVariable_Unpack(argument));
      } else if (arguments_[i] >= 0) {
        int64_t value = PyLong_AsLongLong(argument);
        if (value == -1 && PyErr_Occurred()) throw python_error();
        symbols[static_cast<size_t>(arguments_[i])] = value;
      }
    }
    inputs.insert(inputs.end(), constants_.begin(), constants_.end());
    if (PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr) != 0) throw python_error();  // So that inputs can be freed during the run.
    std::vector<at::Tensor> outputs;
    {
      py::gil_scoped_release released;
      // Modes of Python see no op of a compiled graph. AOTAutograd runs the first call under one, which knows no numbers as tensors.
      c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
      outputs = graph_.run(std::move(inputs), symbols);
    }
    py::tuple out(results_.size());
    for (size_t i = 0; i < results_.size(); ++i)
      out[i] = results_[i] < 0 ? py::none() : py::reinterpret_steal<py::object>(THPVariable_Wrap(outputs[static_cast<size_t>(results_[i])]));
    return out.release().ptr();
    END_HANDLE_TH_ERRORS
  }

  tenon::Explanation explain() const { return graph_.explain(); }

 private:
  static constexpr int64_t kTensor = -1;

  static tenon::Options options_of(const std::map<std::string, std::string>& settings) {
    tenon::Options out;
    for (const auto& [name, value] : settings) {
      if (name == "mode") out.mode = value == "max-autotune" ? tenon::Mode::max_autotune : value == "reduce-overhead" ? tenon::Mode::reduce_overhead : tenon::Mode::standard;
      else if (name == "backend") out.backend = value;
      else if (name == "name") out.name = value;
      else if (name == "verify") out.verify = std::stod(value);
      else if (name == "tuning_seconds") out.tuning_seconds = std::stod(value);
    }
    return out;
  }

  tenon::ImportedGraph graph_;
  std::vector<int64_t> arguments_;
  std::vector<at::Tensor> constants_;
  std::vector<int64_t> results_;
  size_t symbols_ = 0;
};

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.attr("version") = std::to_string(TENON_VERSION_MAJOR) + "." + std::to_string(TENON_VERSION_MINOR) + "." + std::to_string(TENON_VERSION_PATCH);
  module.def("backends", &tenon::backends);
  py::class_<Graph, std::shared_ptr<Graph>>(module, "Graph")
      .def(py::init<const std::string&, const std::map<std::string, std::string>&, bool, std::vector<int64_t>, std::vector<at::Tensor>,
                    std::vector<int64_t>>(),
           py::call_guard<py::gil_scoped_release>())
      .def("run",
           [](const Graph& graph, py::handle list) {
             PyObject* out = graph.run(list.ptr());
             if (!out) throw py::error_already_set();
             return py::reinterpret_steal<py::tuple>(out);
           })
      .def("text", [](const Graph& graph) { return graph.explain().text(); })
      .def("json", [](const Graph& graph) { return graph.explain().json(); });
}
