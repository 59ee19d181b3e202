// Result and weft_assert, including what reading the wrong half does.
#include "base/result.h"

#include <cerrno>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace weft {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{EINVAL, "odd"};
  return n / 2;
}

Result<void> even(int n) {
  if (n % 2 != 0) return Error{EINVAL, "odd"};
  return {};
}

TEST(Result, HoldsAValue) {
  const Result<int> result = half(8);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(*result, 4);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = half(7);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, EINVAL);
  EXPECT_STREQ(result.error().text, "odd");
}

TEST(Result, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<std::string>> result = std::make_unique<std::string>("weft");
  ASSERT_TRUE(result);
  EXPECT_EQ((*result)->size(), 4u);
  const std::unique_ptr<std::string> taken = std::move(*result);
  EXPECT_EQ(*taken, "weft");
}

TEST(Result, ArrowReachesTheValueInPlace) {
  Result<std::string> result = std::string("abc");
  result->push_back('d');
  EXPECT_EQ(*result, "abcd");
}

TEST(Result, AFalseValueIsStillAValue) {
  EXPECT_TRUE(half(0).ok());
  EXPECT_TRUE(Result<bool>(false).ok());
}

TEST(Result, OfVoidSaysOnlyWhetherItWorked) {
  EXPECT_TRUE(even(2));
  ASSERT_FALSE(even(3));
  EXPECT_STREQ(even(3).error().text, "odd");
}

TEST(Result, OwnErrorTypes) {
  enum class Fault { Small, Large };
  const Result<int, Fault> bad = Fault::Large;
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error(), Fault::Large);
  const Result<void, Fault> good;
  EXPECT_TRUE(good.ok());
}

TEST(ResultDeathTest, ReadingTheWrongHalfIsOurBug) {
  EXPECT_DEATH(static_cast<void>(*half(7)), "assertion failed: ok\\(\\)");
  EXPECT_DEATH(static_cast<void>(half(8).error()), "assertion failed: !ok\\(\\)");
  EXPECT_DEATH(static_cast<void>(even(8).error()), "assertion failed: !ok\\(\\)");
}

TEST(AssertDeathTest, NamesTheExpressionAndThePlace) {
  const int n = 3;
  EXPECT_DEATH(weft_assert(n == 4), "weft: assertion failed: n == 4 \\(.*result_test.cc:[0-9]+\\)");
  weft_assert(n == 3);
}

}  // namespace
}  // namespace weft
