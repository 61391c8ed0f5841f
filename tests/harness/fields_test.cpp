#include "harness/fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ws::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const InvalidArgument& error) {
    return std::string(error.message());
  }
  return "no error";
}

TEST(Fields, AreOfTheTypeAskedFor) {
  const Json json = {{"name", "a"},
                     {"count", 3},
                     {"share", 0.5},
                     {"on", true},
                     {"shape", {2, 3}},
                     {"nothing", nullptr},
                     {"size", 1.5},
                     {"below", -1},
                     {"by", {{"torch", "2.9"}}},
                     {"beyond", 1e30},
                     {"large", 3'000'000'000}};
  const Fields fields(json, "mine.json");
  EXPECT_EQ(fields.get<std::string>("name"), "a");
  EXPECT_EQ(fields.get<int>("count"), 3);
  EXPECT_EQ(fields.get<double>("count"), 3);
  EXPECT_EQ(fields.get<double>("share"), 0.5);
  EXPECT_TRUE(fields.get<bool>("on"));
  EXPECT_THAT(fields.get<std::vector<int64_t>>("shape"), ElementsAre(2, 3));
  EXPECT_EQ((fields.get<std::map<std::string, std::string>>("by").at("torch")), "2.9");
  EXPECT_EQ(fields.get<int64_t>("large"), 3'000'000'000);
  EXPECT_EQ(fields.get("nothing", 7), 7) << "null stands for nothing";
  EXPECT_EQ(fields.get("missing", 7), 7);
  EXPECT_TRUE(fields.has("name"));
  EXPECT_FALSE(fields.has("nothing"));
  EXPECT_FALSE(fields.has("missing"));
  EXPECT_EQ(error_of([&] { fields.get<int>("missing"); }), "mine.json: there is no 'missing'");
  EXPECT_EQ(error_of([&] { fields.get<std::string>("count"); }),
            "mine.json: 'count' is 3, not a text");
  EXPECT_EQ(error_of([&] { fields.get<double>("nothing"); }),
            "mine.json: 'nothing' is null, not a number");
  EXPECT_EQ(error_of([&] { fields.get<bool>("shape"); }),
            "mine.json: 'shape' is a list, not true or false");
  EXPECT_EQ(error_of([&] { fields.get<std::vector<int>>("by"); }),
            "mine.json: 'by' is an object, not a list");
  for (const char* key : {"size", "large", "beyond"}) {
    EXPECT_THAT(error_of([&] { fields.get<int>(key); }),
                HasSubstr("not a whole number from -2147"));
  }
  EXPECT_THAT(error_of([&] { fields.get<uint64_t>("below"); }),
              StartsWith("mine.json: 'below' is -1, not a whole number from 0 to 1844"));
}

TEST(Fields, SayWhereTheyStand) {
  const Json json = {{"results", {{{"a", 1}}, {{"a", 2}}}}, {"device", {{"name", "x"}}}, {"n", 1}};
  const Fields fields(json, "mine.json");
  const std::vector<Fields> results = fields.objects("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[1].where(), "mine.json: results[1]");
  EXPECT_EQ(results[1].get<int>("a"), 2);
  EXPECT_EQ(fields.object("device").where(), "mine.json: 'device'");
  EXPECT_EQ(error_of([&] { fields.objects("device"); }),
            "mine.json: 'device' is an object, not a list");
  EXPECT_EQ(error_of([&] { fields.object("n"); }), "mine.json: 'n': 1, not an object");
}

TEST(Fields, ThatNobodyAsksForAreRefused) {
  const Json json = {{"b", 1}, {"a", 2}, {"c", 3}};
  const Fields fields(json, "options");
  fields.get<int>("b");
  fields.get("a", 0);
  fields.get("b", 0);
  EXPECT_EQ(error_of([&] { fields.refuse_others(); }), "options: there is no 'c'; there are a, b");
  fields.get<int>("c");
  EXPECT_EQ(error_of([&] { fields.refuse_others(); }), "no error");
}

TEST(Fields, OfATextThatIsNoJson) {
  EXPECT_EQ(parse_json("{\"a\": 1}", "options")["a"], 1);
  EXPECT_THAT(error_of([] { parse_json("{", "options"); }),
              StartsWith("options is no JSON: parse error at line 1"));
  EXPECT_EQ(error_of([] { read_json_file("/no/such/file"); }), "cannot read /no/such/file");
  EXPECT_EQ(error_of([] { read_json_file("/"); }), "cannot read /: it is a directory");
}

}  // namespace
}  // namespace ws::harness
