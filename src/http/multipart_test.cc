#include "http/multipart.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace graft {
namespace {

constexpr char kType[] = "multipart/form-data; boundary=b0";

std::string Part(const std::string& head, const std::string& content) {
  return "--b0\r\n" + head + "\r\n\r\n" + content + "\r\n";
}
std::string Field(const std::string& name, const std::string& content) {
  return Part("Content-Disposition: form-data; name=\"" + name + "\"", content);
}

TEST(MultipartTest, FieldsAndFilesComeAsTheyWereSent) {
  const std::string content = std::string("a\0\r\n--b", 7) + "\r\n--b1\r\n";
  const std::string body =
      "preamble\r\n" + Field("purpose", "fine-tune") +
      Part(
          "content-type: text/plain\r\nCONTENT-DISPOSITION: Form-Data; filename=\"C:\\\\dir/a "
          "\\\"b\\\";.txt\"; name=file",
          content) +
      Field("empty", "") + "--b0--\r\nepilogue";
  ApiResult<std::vector<FormPart>> parts = ParseForm(kType, body);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "fine-tune");
  EXPECT_FALSE((*parts)[0].is_file);
  EXPECT_EQ((*parts)[1].name, "file");
  EXPECT_TRUE((*parts)[1].is_file);
  EXPECT_EQ((*parts)[1].file_name, "a \"b\";.txt");
  EXPECT_EQ((*parts)[1].content, content);
  EXPECT_EQ((*parts)[2].content, "");
}

TEST(MultipartTest, TheBoundaryMayBeQuotedAndTheTypeInAnyCase) {
  EXPECT_TRUE(IsFormType("Multipart/Form-Data ; boundary=x"));
  EXPECT_FALSE(IsFormType("multipart/mixed"));
  EXPECT_FALSE(IsFormType(""));
  const std::string body = "--b0\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b0--";
  EXPECT_TRUE(ParseForm("multipart/form-data; charset=utf-8; Boundary=\"b0\"", body).ok());
}

TEST(MultipartTest, WhatIsNoFormIsRefused) {
  const std::string good = Field("a", "1");
  const std::pair<std::string, const char*> cases[] = {
      {"", "its boundary is not in it"},
      {"--b0", "a boundary's line goes on"},
      {"--b0\r\n", "its last boundary is missing"},
      {good, "its last boundary is missing"},
      {"--b0 x\r\n" + good + "--b0--", "a boundary's line goes on"},
      {"--b0\r\nContent-Disposition: form-data; name=a\r\n--b0--", "headers do not end"},
      {Part("X: y", "1") + "--b0--", "no Content-Disposition"},
      {Part("Content-Disposition: form-data; filename=a", "1") + "--b0--", "with a name"},
      {Part("Content-Disposition: attachment; name=a", "1") + "--b0--", "no Content-Disposition"},
      {good + good + "--b0--", "comes twice"}};
  for (const auto& [body, words] : cases) {
    const ApiResult<std::vector<FormPart>> parts = ParseForm(kType, body);
    ASSERT_FALSE(parts.ok()) << body;
    EXPECT_EQ(parts.error().http_status, 400);
    EXPECT_NE(parts.error().message.find(words), std::string::npos) << parts.error().message;
  }
  EXPECT_FALSE(ParseForm("multipart/form-data", good + "--b0--").ok());
  EXPECT_FALSE(ParseForm("multipart/form-data; boundary=" + std::string(71, 'b'), good).ok());
  std::string many;
  for (int i = 0; i < 65; ++i) many += Field(std::to_string(i), "");
  EXPECT_FALSE(ParseForm(kType, many + "--b0--").ok());
}

// Whatever a client sends has an answer, and no part lies outside of the body.
TEST(MultipartTest, AnyCutAndAnyByteIsRefusedOrRead) {
  const std::string whole =
      Part("Content-Disposition: form-data; name=\"a\"; filename=\"x\\", "one") + "--b0--";
  const auto check = [](const std::string& body) {
    ApiResult<std::vector<FormPart>> parts = ParseForm(kType, body);
    if (!parts.ok()) return;
    for (const FormPart& part : *parts) {
      EXPECT_GE(part.content.data(), body.data());
      EXPECT_LE(part.content.data() + part.content.size(), body.data() + body.size());
    }
  };
  for (size_t i = 0; i <= whole.size(); ++i) check(whole.substr(0, i));
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'\0', '\r', '\n', '"', ';', '=', '-', '\\'}) {
      std::string damaged = whole;
      damaged[i] = c;
      check(damaged);
    }
  }
}

}  // namespace
}  // namespace graft
