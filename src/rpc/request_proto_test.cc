#include "rpc/request_proto.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "request/generator.h"

namespace graft {
namespace {

// Fills a message: every field, including sub-messages and lists, with something else than its
// default.
void FillFields(Random& random, google::protobuf::Message* message) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection* const reflection = message->GetReflection();
  const auto number = [&random] { return static_cast<int32_t>(1 + random.Below(1000)); };
  const auto text = [&] { return "text " + std::to_string(number()); };
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const Field* const field = message->GetDescriptor()->field(i);
    const int32_t value = number();
    if (field->is_repeated()) {
      for (int32_t k = 0; k < 1 + value % 3; ++k) {
        if (field->cpp_type() == Field::CPPTYPE_INT32) {
          reflection->AddInt32(message, field, number());
        } else {
          ASSERT_EQ(field->cpp_type(), Field::CPPTYPE_MESSAGE) << field->full_name();
          FillFields(random, reflection->AddMessage(message, field));
        }
      }
      continue;
    }
    switch (field->cpp_type()) {
      case Field::CPPTYPE_INT32:
        reflection->SetInt32(message, field, -value);
        break;
      case Field::CPPTYPE_INT64:
        reflection->SetInt64(message, field, -value - (int64_t{1} << 40));
        break;
      case Field::CPPTYPE_UINT64:
        reflection->SetUInt64(message, field, (uint64_t{1} << 63) + static_cast<uint64_t>(value));
        break;
      case Field::CPPTYPE_FLOAT:
        reflection->SetFloat(message, field, 0.1f * static_cast<float>(value) + 1.5f);
        break;
      case Field::CPPTYPE_BOOL:
        reflection->SetBool(message, field, true);
        break;
      case Field::CPPTYPE_STRING:
        reflection->SetString(message, field, text());
        break;
      case Field::CPPTYPE_MESSAGE:
        FillFields(random, reflection->MutableMessage(message, field));
        break;
      default:
        FAIL() << field->full_name() << " has a type that this test does not fill";
    }
  }
}

// What a request has as a set comes back as one.
void MakeSets(rpc::Request* request) {
  auto* const allowed = request->mutable_sampling()->mutable_allowed_token_ids();
  std::sort(allowed->begin(), allowed->end());
  allowed->erase(std::unique(allowed->begin(), allowed->end()), allowed->end());
}

// A field that a conversion forgets would come back as its default.
TEST(RequestProtoTest, CarriesEveryFieldBothWays) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    rpc::Request want;
    FillFields(random, &want);
    MakeSets(&want);
    rpc::Request got;
    ASSERT_TRUE(got.ParseFromString(ToProto(FromProto(want)).SerializeAsString()));
    ASSERT_TRUE(google::protobuf::util::MessageDifferencer::Equals(got, want))
        << got.ShortDebugString() << "\n"
        << want.ShortDebugString();
  }
}

TEST(RequestProtoTest, DefaultsSurvive) {
  const Request sent = FromProto(ToProto(Request{}));
  EXPECT_TRUE(RefuseUnserved(sent).ok());
  EXPECT_TRUE(ValidateSamplingParams(sent.sampling, 10).ok());
  EXPECT_EQ(sent.sampling.num_logprobs, -1);
}

// The choices of a request have one grammar and one list, though each brings its own.
TEST(RequestProtoTest, WhatRequestsHaveInCommonIsThereOnce) {
  Request request;
  request.grammar = std::string(1000, 'g');
  request.sampling.allowed_token_ids = {1, 5, 9};
  RequestContents contents;
  const Request first = FromProto(ToProto(request), contents);
  EXPECT_EQ(first.grammar.text(), request.grammar.text());
  for (int i = 0; i < 10; ++i) {
    const Request more = FromProto(ToProto(request), contents);
    EXPECT_EQ(&more.grammar.text(), &first.grammar.text());
    EXPECT_EQ(more.sampling.allowed_token_ids.begin(), first.sampling.allowed_token_ids.begin());
  }
  EXPECT_EQ(contents.num_known(), 2u);
  request.sampling.allowed_token_ids = {1, 5};
  EXPECT_EQ(FromProto(ToProto(request), contents).sampling.allowed_token_ids.size(), 2u);
}

TEST(RequestProtoTest, ContentsThatHaveGoneAreForgotten) {
  RequestContents contents;
  Request request;
  for (int i = 0; i < 10'000; ++i) {
    request.grammar = std::to_string(i);
    (void)FromProto(ToProto(request), contents);
  }
  EXPECT_LE(contents.num_known(), 64u);
  EXPECT_EQ(FromProto(ToProto(request), contents).grammar.text(), "9999");
}

// Any bytes give a Request or no message. Further checks are the engine's.
TEST(RequestProtoTest, AnyBytesAreTaken) {
  Random random(2);
  rpc::Request filled;
  FillFields(random, &filled);
  const std::string whole = filled.SerializeAsString();
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = whole.substr(0, random.Below(whole.size() + 1));
    for (int k = 0; k < 3 && !bytes.empty(); ++k) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    }
    rpc::Request proto;
    if (proto.ParseFromString(bytes)) (void)RefuseUnserved(FromProto(proto));
  }
}

}  // namespace
}  // namespace graft
