#include "python/binding/measure.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "harness/json.hpp"

namespace ws::binding {
namespace {

using harness::Json;

// Rungs of one operation that share their problems.
struct Group {
  const Operation* operation = nullptr;
  std::vector<std::pair<const Rung*, DTypes>> rungs;  // with the dtypes they are wanted for
};

std::vector<Group> groups_of(const Json& options) {
  std::vector<Group> groups;
  const auto add = [&](const Operation& operation, const Rung& rung, DTypes dtypes) {
    auto at = std::ranges::find(groups, &operation, &Group::operation);
    if (at == groups.end()) at = groups.insert(groups.end(), Group{&operation, {}});
    const DTypes both = rung.dtypes & operation.dtypes;
    const DTypes wanted = dtypes.empty() ? both : both & dtypes;
    const auto known = std::ranges::find(at->rungs, &rung, &std::pair<const Rung*, DTypes>::first);
    if (known == at->rungs.end()) at->rungs.emplace_back(&rung, wanted);
  };
  // A family's name stands for all of it, also where an operation is called the same.
  const auto add_all = [&](const Address& address, bool whole) {
    for (const Operation& operation : address.family->operations) {
      if (!whole && address.operation != nullptr && address.operation != &operation) continue;
      for (const Rung& rung : address.family->rungs) {
        if (address.rung == nullptr || address.rung == &rung) add(operation, rung, address.dtypes);
      }
    }
  };
  const auto names = options.value("names", std::vector<std::string>{});
  for (const std::string& name : names) {
    const Address address = resolve(name);
    add_all(address, name == address.family->name);
  }
  if (names.empty()) {
    for (const Family* family : families()) add_all({family, nullptr, nullptr, {}}, true);
  }
  return groups;
}

std::vector<DType> dtypes_of(const Json& options, const Operation& operation) {
  std::vector<DType> dtypes;
  for (const std::string& name : options.value("dtypes", std::vector<std::string>{})) {
    const DType dtype = dtype_from(name);
    if (operation.dtypes.has(dtype)) dtypes.push_back(dtype);
  }
  if (options.contains("dtypes") && !options["dtypes"].empty()) return dtypes;
  std::ranges::copy_if(kAllDTypes, std::back_inserter(dtypes),
                       [&](DType dtype) { return operation.dtypes.has(dtype); });
  return dtypes;
}

void set_attribute(const Operation& operation, const std::string& name, const Json& value,
                   Case& chosen) {
  if (!chosen.has_attributes) {
    for (size_t i = 0; i < operation.attributes.size(); ++i) {
      chosen.attributes[i] = operation.attributes[i].standard;
    }
    chosen.has_attributes = true;
  }
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    if (operation.attributes[i].name != name) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    chosen.attributes[i] = parse_value(operation.attributes[i], text);
    return;
  }
  throw InvalidArgument(concatenate(operation.name, " has no attribute '", name, "'"));
}

std::vector<Case> cases_of(const Json& options, const Operation& operation,
                           const std::string& standard) {
  const auto list = options.value("cases", standard);
  require(list == "smoke" || list == "verify" || list == "bench", "cases '", list,
          "': 'smoke', 'verify' or 'bench'");
  const std::span<const Case> chosen_list = list == "smoke"   ? operation.smoke
                                            : list == "bench" ? operation.bench
                                                              : operation.verify;
  std::vector<Case> cases(chosen_list.begin(), chosen_list.end());
  const auto shapes = options.value("shapes", std::vector<std::vector<int64_t>>{});
  if (!shapes.empty()) {
    cases.clear();
    for (const std::vector<int64_t>& extents : shapes) {
      const size_t most = operation.extent_names.size();
      const size_t least = most - static_cast<size_t>(operation.optional_extents);
      require(extents.size() >= least && extents.size() <= most, "a shape of ", extents.size(),
              " extents; ", operation.name, " has ", least, least < most ? " or more" : "");
      for (const int64_t extent : extents) require(extent >= 0, "an extent of ", extent);
      std::ranges::copy(extents, cases.emplace_back().extents.begin());
    }
  }
  if (options.contains("attributes")) {
    for (Case& chosen : cases) {
      for (const auto& [name, value] : options["attributes"].items()) {
        set_attribute(operation, name, value, chosen);
      }
    }
  }
  return cases;
}

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(concatenate("options are no JSON: ", error.what()));
  }
}

}  // namespace

std::string verify(const std::string& text) {
  const Json options = parse(text);
  const auto seed = options.value("seed", uint64_t{1});
  Json results = Json::array();
  int64_t failed = 0;
  int64_t skipped = 0;
  for (const Group& group : groups_of(options)) {
    const std::vector<Case> cases = cases_of(options, *group.operation, "verify");
    for (const DType dtype : dtypes_of(options, *group.operation)) {
      for (size_t c = 0; c < cases.size(); ++c) {
        std::unique_ptr<harness::Instance> instance;
        for (const auto& [rung, wanted] : group.rungs) {
          if (!wanted.has(dtype)) continue;
          if (instance == nullptr) {
            instance =
                std::make_unique<harness::Instance>(*group.operation, cases[c], dtype, seed + c);
          }
          const harness::Verification result = harness::verify(*rung, *instance);
          failed += result.verdict == harness::Verdict::kFailed ? 1 : 0;
          skipped += result.verdict == harness::Verdict::kSkipped ? 1 : 0;
          results.push_back(harness::to_json(result));
        }
      }
    }
  }
  require(!results.empty(), "nothing to verify: no rung named takes these dtypes");
#ifdef WS_EMULATED
  const std::string_view device = "emulator";
#else
  const std::string_view device = "cuda";
#endif
  return Json{{"device", device},
              {"seed", seed},
              {"failed", failed},
              {"skipped", skipped},
              {"results", results}}
      .dump();
}

std::string bench(const std::string& text, std::vector<harness::CallbackPeer> peers,
                  Stream stream) {
  const Json given = parse(text);
  harness::BenchOptions options;
  options.min_runs = given.value("min_runs", options.min_runs);
  options.min_milliseconds = given.value("min_milliseconds", options.min_milliseconds);
  options.warm_up = given.value("warm_up", options.warm_up);
  options.seed = given.value("seed", options.seed);
  options.peers = given.value("peers", options.peers);
  options.stream = stream;
  options.callbacks = std::move(peers);
  std::vector<harness::BenchGroup> groups;
  for (const Group& group : groups_of(given)) {
    const std::vector<Case> cases = cases_of(given, *group.operation, "bench");
    for (const DType dtype : dtypes_of(given, *group.operation)) {
      std::vector<const Rung*> rungs;
      for (const auto& [rung, wanted] : group.rungs) {
        if (wanted.has(dtype)) rungs.push_back(rung);
      }
      if (rungs.empty()) continue;
      for (const Case& chosen : cases) {
        groups.push_back(harness::bench(*group.operation, rungs, chosen, dtype, options));
      }
    }
  }
  require(!groups.empty(), "nothing to time: no rung named takes these dtypes");
  return harness::report(options, groups).dump();
}

}  // namespace ws::binding
