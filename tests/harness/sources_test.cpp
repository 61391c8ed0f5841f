#include "harness/sources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ws::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string lines(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(Differences, AreHunksWithThreeLinesAround) {
  EXPECT_EQ(differences(lines(1, 9), lines(1, 9)), "");
  EXPECT_EQ(differences(lines(1, 9), lines(1, 4) + "five\n" + lines(6, 9)),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  EXPECT_EQ(differences("b\n", "a\nb\nc\n"), "@@ -1,1 +1,3 @@\n+a\n b\n+c\n");
  EXPECT_EQ(differences("", "a\n"), "@@ -1,0 +1,1 @@\n+a\n");
  EXPECT_EQ(differences("a\n", ""), "@@ -1,1 +1,0 @@\n-a\n");
}

TEST(Differences, OfNearChangesShareAHunk) {
  // Six lines between two changes belong to both, seven do not.
  EXPECT_EQ(differences(lines(0, 7), lines(1, 6)),
            "@@ -1,8 +1,6 @@\n-0\n 1\n 2\n 3\n 4\n 5\n 6\n-7\n");
  EXPECT_EQ(differences(lines(0, 8), lines(1, 7)),
            "@@ -1,4 +1,3 @@\n-0\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-8\n");
}

TEST(Differences, KeepWhatBothHave) {
  EXPECT_EQ(differences("a\nb\nc\n", "b\nc\na\n"), "@@ -1,3 +1,3 @@\n-a\n b\n c\n+a\n");
}

TEST(Sources, AreInTheProgram) {
  const Address address = resolve("softmax/online");
  const std::string_view path = path_of(*address.family, *address.rung);
  EXPECT_THAT(path, StartsWith("kernels/softmax/"));
  EXPECT_THAT(path, HasSubstr("_online.cu"));
  EXPECT_THAT(text_of(path), StartsWith("//"));
  EXPECT_THROW(text_of("kernels/softmax/no_such.cuh"), Error);
  const Rung unknown{.name = "no_such", .idea = ""};
  EXPECT_THROW(path_of(*address.family, unknown), Error);
}

TEST(Sources, AreOfEveryRung) {
  for (const Family* family : families()) {
    for (const Rung* rung : family->rungs) {
      EXPECT_NO_THROW(path_of(*family, *rung)) << family->name << "/" << rung->name;
    }
  }
}

TEST(Sources, BeginWithAComment) {
  EXPECT_EQ(header_comment("// One.\n//\n//Two.\n#pragma once\n// Three.\n"), "One.\n\nTwo.\n");
  EXPECT_EQ(header_comment("#pragma once\n"), "");
}

}  // namespace
}  // namespace ws::harness
