// warpsmith doctor: what this machine and this build have, what is missing and how to get it.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "catalogue/peers/library.hpp"
#include "cli/command.hpp"
#include "cuda_file/nvcc.hpp"
#include "harness/machine.hpp"
#include "warpsmith/device_query.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

struct Finding {
  std::string what;
  bool good = false;
  std::string text;
  std::string advice;                                // where not good
  std::vector<runtime::DeviceQuantity> device = {};  // of one: what it says of itself
};

Finding nvcc() {
  const std::string path = cuda_file::find_nvcc();
  return {
      "nvcc", !path.empty(), path.empty() ? "not found" : path,
      "only the CUDA build needs it: install NVIDIA's CUDA toolkit 12.4 or newer, then put nvcc on "
      "PATH or set CUDA_HOME"};
}

Finding driver() {
  const std::string path = cuda_file::find_program("nvidia-smi");
  return {
      "driver", !path.empty(), path.empty() ? "no nvidia-smi on PATH" : path,
      "without an NVIDIA driver kernels run in the emulator; on a machine with a GPU install its "
      "driver"};
}

void add_devices(std::vector<Finding>& findings) {
  if (runtime::kEmulated) {
    findings.push_back({"build", true, "emulated: kernels run as C++ on this machine's cores", ""});
    findings.push_back(
        {"cores", true, std::to_string(std::max(1u, std::thread::hardware_concurrency())), ""});
    findings.push_back({"GPU", true,
                        fmt::format("a small one of Hopper, emulated: sm_{}, {} SMs",
                                    runtime::capability(), device_facts().multiprocessors),
                        "", runtime::device_query()});
    return;
  }
  findings.push_back({"build", true, "CUDA: kernels run on the GPU", ""});
  std::string why;
  const int count = runtime::device_count(&why);
  if (count == 0) {
    findings.push_back(
        {"GPU", false, "none: " + why,
         "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use the preset `emulated`"});
  }
  for (int i = 0; i < count; ++i) {
    const runtime::DeviceScope scope(i);
    const harness::Machine m = harness::machine();
    findings.push_back(
        {fmt::format("GPU {}", i), m.capability >= 80,
         fmt::format(
             "{}, sm_{}, {} SMs, {:.0f} GB, {:.0f} MB L2, driver for CUDA {}, built with {}",
             m.device, m.capability, m.multiprocessors, static_cast<double>(m.memory_bytes) * 1e-9,
             static_cast<double>(m.l2_bytes) * 1e-6, m.driver, m.runtime),
         "kernels need compute capability 8.0 or newer", runtime::device_query()});
  }
}

void run_doctor(bool as_json) {
  std::vector<Finding> findings;
  findings.push_back({"warpsmith", true, fmt::format("revision {}", harness::revision()), ""});
  add_devices(findings);
  findings.push_back(driver());
  findings.push_back(nvcc());
  for (const peers::LibraryStatus& library : peers::library_status()) {
    findings.push_back({library.name, library.found, library.text,
                        "a peer that bench compares with; everything else works without it"});
  }
  size_t rungs = 0;
  size_t operations = 0;
  for (const Family* family : families()) {
    rungs += family->rungs.size();
    operations += family->operations.size();
  }
  findings.push_back(
      {"catalogue", true,
       fmt::format("{} families, {} operations, {} rungs", families().size(), operations, rungs),
       ""});
  if (as_json) {
    Json json = Json::array();
    for (const Finding& f : findings) {
      json.push_back({{"what", f.what}, {"good", f.good}, {"text", f.text}});
      if (!f.good) json.back()["advice"] = f.advice;
      for (const runtime::DeviceQuantity& q : f.device) {
        json.back()["device"][std::string(q.name)] = q.value;
      }
    }
    print_json(Json{{"device", runtime::kName}, {"findings", json}});
    return;
  }
  for (const Finding& f : findings) {
    print(fmt::format("{:<10} {:<8} {}\n", f.what, f.good ? "ok" : "missing", f.text));
    if (!f.good) print(fmt::format("{:<19} {}\n", "", f.advice));
    for (const runtime::DeviceQuantity& q : f.device) {
      print(fmt::format("{:<19} {:<30} {:>10}{}{}\n", "", q.name, q.value,
                        q.unit.empty() ? "" : " ", q.unit));
    }
  }
}

}  // namespace

void add_doctor(CLI::App& app, int&) {
  CLI::App* verb =
      app.add_subcommand("doctor", "Devices, driver, toolkit, libraries: what is missing");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "As JSON");
  verb->callback([=] { run_doctor(*as_json); });
}

}  // namespace ws::cli
