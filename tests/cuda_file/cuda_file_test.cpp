// Every file in programs/ and in examples/lessons/ must run and end with 0 in every order of
// threads; every one in bugs/ must be told off as its first lines say: "// expect: KIND at LINE:
// TEXT" (line 0: any), beside "// order: random", which leaves that one order, and limits: "//
// time: SECONDS", "// memory: BYTES", "// printed: BYTES", "// compile time: SECONDS", "// compile
// memory: BYTES".
#include "cuda_file/cuda_file.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cuda_file/nvcc.hpp"

namespace ws::cuda_file {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = WS_TEST_FOLDER;

struct Expected {
  std::string kind;
  int line = 0;
  std::string text;
  std::string output;
  std::vector<std::string> orders = {"forward", "reverse", "random"};  // of threads; bugs: first
  RunOptions run{.capture = true, .seconds = 30};
  BuildOptions build;
};

Expected expected_of(const fs::path& file) {
  Expected expected;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line) && line.starts_with("//");) {
    const auto value = [&](std::string_view key) {
      const std::string start = "// " + std::string(key) + ": ";
      return line.starts_with(start) ? line.substr(start.size()) : std::string();
    };
    if (const std::string text = value("expect"); !text.empty()) {
      const size_t at = text.find(" at ");
      const size_t colon = text.find(": ", at);
      expected.kind = text.substr(0, at);
      expected.line = std::stoi(text.substr(at + 4));
      expected.text = text.substr(colon + 2);
    }
    if (const std::string text = value("output"); !text.empty()) expected.output = text;
    if (const std::string text = value("order"); !text.empty()) expected.orders = {text};
    if (const std::string text = value("time"); !text.empty())
      expected.run.seconds = std::stod(text);
    if (const std::string text = value("memory"); !text.empty()) {
      expected.run.memory_bytes = std::stoull(text);
    }
    if (const std::string text = value("printed"); !text.empty()) {
      expected.run.output_bytes = std::stoull(text);
    }
    if (const std::string text = value("compile time"); !text.empty()) {
      expected.build.seconds = std::stod(text);
    }
    if (const std::string text = value("compile memory"); !text.empty()) {
      expected.build.memory_bytes = std::stoull(text);
    }
  }
  return expected;
}

class FileTest : public testing::Test {
 public:
  explicit FileTest(fs::path file) : file_(std::move(file)) {}

  void TestBody() override {
    const Expected expected = expected_of(file_);
    const Built built = build(file_, expected.build);
    if (!built.ok()) {
      ASSERT_FALSE(built.diagnostics.empty());
      const Diagnostic& first = built.diagnostics.front();
      EXPECT_EQ(first.kind, expected.kind) << built.compiler_output;
      EXPECT_EQ(first.line, expected.line) << to_string(first);
      EXPECT_THAT(first.message, testing::HasSubstr(expected.text));
      return;
    }
    if (expected.kind.empty()) {
      for (const std::string& order : expected.orders) {
        RunOptions options = expected.run;
        options.order = order;
        const Outcome outcome = run(built, options);
        EXPECT_TRUE(outcome.ok()) << order << ": exit code " << outcome.exit_code << "\n"
                                  << outcome.output
                                  << (outcome.faults.empty() ? "" : outcome.faults[0].text());
        EXPECT_THAT(outcome.output, testing::HasSubstr(expected.output)) << order;
      }
      return;
    }
    RunOptions options = expected.run;
    options.order = expected.orders.front();
    const Outcome outcome = run(built, options);
    ASSERT_EQ(outcome.faults.size(), 1U) << outcome.output;
    const FaultReport& fault = outcome.faults.front();
    EXPECT_EQ(fault.kind, expected.kind) << fault.text();
    if (expected.line > 0) {
      EXPECT_EQ(fault.line, expected.line) << fault.text();
    }
    EXPECT_THAT(fault.text(), testing::HasSubstr(expected.text));
  }

 private:
  fs::path file_;
};

const bool registered = [] {
  for (const fs::path folder : {"programs", "bugs", "../../examples/lessons"}) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(kFolder / folder)) {
      if (entry.path().extension() == ".cu") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const fs::path& file : files) {
      testing::RegisterTest(folder.stem().c_str(), file.stem().c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [file]() -> FileTest* { return new FileTest(file); });
    }
  }
  return true;
}();

// ---- What the outcome tells --------------------------------------------------------------------

TEST(Outcome, CountsAndProfilesByLine) {
  const Built built = build(kFolder / "programs" / "transpose.cu");
  ASSERT_TRUE(built.ok()) << built.compiler_output;
  const Outcome outcome = run(built, {.profile = true, .capture = true});
  ASSERT_TRUE(outcome.ok()) << outcome.output;
  ASSERT_EQ(outcome.launches.size(), 2U);
  const LaunchReport& padded = outcome.launches[1];
  EXPECT_EQ(padded.kernel, "transposeNoBankConflicts");
  EXPECT_EQ(padded.grid, (Extent3{2, 2, 1}));
  EXPECT_EQ(padded.block, (Extent3{32, 8, 1}));
  EXPECT_EQ(padded.static_shared, 32 * 33 * 4);
  EXPECT_EQ(padded.counts.at("global_load_bytes"), 64U * 64 * 4);
  EXPECT_EQ(padded.counts.at("barriers"), 4U);
  ASSERT_TRUE(outcome.profile);
  const auto line_at = [&](int line, std::string_view operation) {
    const auto at = std::ranges::find_if(outcome.profile->lines, [&](const ProfileLine& l) {
      return l.place.line == line && l.place.operation == operation;
    });
    return at != outcome.profile->lines.end() ? *at : ProfileLine{};
  };
  // The naive one writes a column: 32 sectors a request. Lines are those of the file.
  EXPECT_EQ(line_at(12, "st.global").sectors, 128U * 32);
  EXPECT_EQ(line_at(12, "st.global").requests, 128U);
  EXPECT_EQ(line_at(32, "st.global").sectors, 128U * 4);
  EXPECT_EQ(line_at(32, "ld.shared").wavefronts, 128U);
  EXPECT_EQ(line_at(32, "ld.shared").ideal_wavefronts, 128U);
}

TEST(Outcome, VectorsAreOneAccess) {
  const Built built = build(kFolder / "programs" / "half2_elementwise.cu");
  ASSERT_TRUE(built.ok()) << built.compiler_output;
  const Outcome outcome = run(built, {.profile = true, .capture = true});
  ASSERT_TRUE(outcome.profile);
  // 64 threads store 16 bytes each: two requests of 16 sectors.
  const auto packed = std::ranges::find_if(outcome.profile->lines, [](const ProfileLine& l) {
    return l.place.line == 24 && l.place.operation == "st.global";
  });
  ASSERT_NE(packed, outcome.profile->lines.end());
  EXPECT_EQ(packed->requests, 2U);
  EXPECT_EQ(packed->sectors, 32U);
}

TEST(Outcome, GivesTheProgramItsArgumentsAndItsCode) {
  const fs::path folder = fs::path(testing::TempDir()) / "warpsmith_arguments";
  fs::create_directories(folder);
  std::ofstream(folder / "code.cu") << "#include <stdlib.h>\n"
                                       "int main(int c, char** v) { return c + atoi(v[1]); }\n";
  const Built built = build(folder / "code.cu", {.folder = folder / "made"});
  ASSERT_TRUE(built.ok()) << built.compiler_output;
  const Outcome outcome = run(built, {.arguments = {"5", "x"}});
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.exit_code, 8);
  EXPECT_TRUE(outcome.faults.empty());
  EXPECT_TRUE(fs::exists(folder / "made" / "program"));
}

TEST(Build, RefusesWhatIsNoFile) { EXPECT_THROW(build("/there/is/none.cu"), InvalidArgument); }

// ---- For a GPU ---------------------------------------------------------------------------------

TEST(Nvcc, CompilesForTheGpuHere) {
  EXPECT_EQ(target_option("8.0"), "-gencode=arch=compute_80,code=sm_80");
  EXPECT_EQ(target_option("9.0"), "-gencode=arch=compute_90a,code=sm_90a");
  EXPECT_EQ(target_option("12.0"), "-gencode=arch=compute_120a,code=sm_120a");
  EXPECT_EQ(target_option(""), "-arch=native");
  EXPECT_EQ(target_option("No devices were found"), "-arch=native");
}

TEST(Nvcc, IsCalledWithWhatTheEmulatorsProgramsHave) {
  BuildOptions options;
  options.include_folders = {"theirs"};
  options.definitions = {"N=4"};
  options.libraries = {"cublas"};
  const std::vector<std::string> command =
      nvcc_command("nvcc", "-arch=native", "my.cu", "made/program", {"ours"}, options);
  EXPECT_THAT(command,
              testing::ElementsAre("nvcc", "-std=c++20", "-O3", "-lineinfo", "--extended-lambda",
                                   "--expt-relaxed-constexpr", "-arch=native", "my.cu", "-o",
                                   "made/program", "-Itheirs", "-Iours", "-DN=4", "-lcublas"));
}

TEST(Nvcc, EveryToolsErrorsAreTold) {
  const std::vector<Diagnostic> all = nvcc_diagnostics(
      "my.cu(3): error: identifier \"y\" is undefined\n"
      "      y = 3;\n"
      "      ^\n"
      "\n"
      "my.cu(3): error: identifier \"y\" is undefined\n"
      "my.cu(5): warning #550-D: variable \"n\" was set but never used\n"
      "my.cu(1): catastrophic error: cannot open source file \"none.h\"\n"
      "my.cu:7:5: error: expected ';'\n"
      "ptxas error   : Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)\n"
      "nvcc fatal   : Unsupported gpu architecture 'compute_10'\n"
      "ld: x.o: in function `main':\n"
      "x.cpp:(.text.startup+0x5): undefined reference to `f()'\n"
      "collect2: error: ld returned 1 exit status\n"
      "1 error detected in the compilation of \"my.cu\".\n");
  std::vector<std::string> texts;
  for (const Diagnostic& d : all) texts.push_back(to_string(d));
  EXPECT_THAT(
      texts,
      testing::ElementsAre(
          "my.cu:3: error: identifier \"y\" is undefined",
          "my.cu:5: warning: variable \"n\" was set but never used",
          "my.cu:1: error: cannot open source file \"none.h\"", "my.cu:7:5: error: expected ';'",
          "ptxas: error: Entry function 'k' uses too much shared data (0x61a80 bytes, "
          "0xc000 max)",
          "nvcc: error: Unsupported gpu architecture 'compute_10'",
          "ld: error: undefined reference to `f()'"));
}

TEST(Nvcc, AFileThatDoesNotCompileIsToldOffAtItsLine) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc here";
  const Built built = build(kFolder / "bugs" / "syntax_error.cu", {.with_nvcc = true});
  EXPECT_FALSE(built.ok());
  ASSERT_FALSE(built.diagnostics.empty());
  EXPECT_EQ(built.diagnostics.front().kind, "error") << built.compiler_output;
  EXPECT_EQ(fs::path(built.diagnostics.front().file).filename(), "syntax_error.cu");
  EXPECT_GT(built.diagnostics.front().line, 0);
}

}  // namespace
}  // namespace ws::cuda_file
