#include "sim/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace graft {
namespace {

class TraceTest : public ::testing::Test {
 protected:
  ~TraceTest() override { std::filesystem::remove(path_); }

  const std::string& Write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  std::vector<TraceRequest> Read(const std::string& text) {
    const auto trace = ReadTrace(Write(text));
    EXPECT_TRUE(trace.ok()) << trace.status().ToString();
    return trace.ok() ? *trace : std::vector<TraceRequest>();
  }
  std::string ErrorOf(const std::string& text) { return ReadTrace(Write(text)).status().message(); }

  const std::string path_ =
      std::filesystem::temp_directory_path() /
      ("graft_trace_" + std::to_string(getpid()) + "_" +
       std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(TraceTest, AzureLlm) {
  const auto trace = Read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-30 23:59:59.5000000,374,44\r\n"
      "2023-12-01 00:00:01.2500000,396,109\r\n");
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].arrival_seconds, 0.0);
  EXPECT_NEAR(trace[1].arrival_seconds, 1.75, 1e-6);
  EXPECT_EQ(trace[1].prompt_tokens, 396);
  EXPECT_EQ(trace[1].output_tokens, 109);
  EXPECT_EQ(trace[1].adapter, -1);
}

TEST_F(TraceTest, LmsysNamesAdapters) {
  const std::string text =
      "req_id,req_time_s,adapter,prompt_len,output_len\n"
      "0,1.5,lora-13,13,199\n1,1.0,lora-2,36,137\n2,2.5,lora-13,456,156\n";
  const auto trace = Read(text);
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace[0].prompt_tokens, 36) << "in order of arrival";
  EXPECT_EQ(trace[1].adapter, trace[2].adapter);
  EXPECT_NE(trace[0].adapter, trace[1].adapter);
  EXPECT_NEAR(trace[2].arrival_seconds, 1.5, 1e-12);
  EXPECT_EQ(*ReadPopularity(path_), (std::vector<double>{2, 1}));
}

TEST_F(TraceTest, AlibabaArrivalsHaveTenantsAndNoLengths) {
  const auto trace = Read(
      "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length\n"
      "2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0000,63.0\n"
      "2024-11-15 16:58:50,TXT_2_IMG,SUCCEED,43.0,G0001,93.0\n");
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[1].arrival_seconds, 60.0);
  EXPECT_EQ(trace[1].adapter, 1);
  EXPECT_EQ(trace[1].prompt_tokens, 0);
}

TEST_F(TraceTest, JsonLines) {
  auto trace = Read(
      "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0]}\n"
      "{\"timestamp\": 3500, \"input_length\": 12, \"output_length\": 7, \"hash_ids\": []}\n");
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[1].arrival_seconds, 3.5);
  EXPECT_EQ(trace[1].output_tokens, 7);
  trace = Read("{\"ts\": 56, \"il\": 93, \"ol\": 0, \"bh\": []}\n");
  ASSERT_EQ(trace.size(), 1u);
  EXPECT_EQ(trace[0].prompt_tokens, 93);
}

TEST_F(TraceTest, PopularityOfFunctionsAndOfLoras) {
  EXPECT_EQ(*ReadPopularity(Write("HashFunction,HashApp,HashOwner,minute_1,minute_2\n"
                                  "a,a,a,1,2\nb,b,b,0,0\nc,c,c,5,5\n")),
            (std::vector<double>{10, 3}));
  EXPECT_EQ(*ReadPopularity(Write("predict_type,checkpoint_model_version_id,lora_args\n"
                                  "p,m,[]\n"
                                  "p,m,\"[{'modelVersionId': 'x', 'scale': 1.0}, "
                                  "{'modelVersionId': 'y', 'scale': 0.5}]\"\n"
                                  "p,m,\"[{'modelVersionId': 'y', 'scale': 1.0}]\"\n")),
            (std::vector<double>{2, 1}));
  EXPECT_FALSE(ReadPopularity(Write("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                    "2023-11-30 23:59:59,3,4\n"))
                   .ok());
}

TEST_F(TraceTest, WhatIsBrokenIsNamed) {
  EXPECT_NE(ErrorOf("a,b\n1,2\n").find("unknown kind"), std::string::npos);
  EXPECT_NE(ErrorOf("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,2,3\n").find("line 2"),
            std::string::npos);
  EXPECT_NE(ErrorOf("TIMESTAMP,ContextTokens,GeneratedTokens\n1:2,2,3\n").find("line 2"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{\"ts\": 1, \"il\": 2, \"ol\": 3}\n{\"ts\": 1}\n").find("line 2"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{\"ts\": 1, \"il\": 2, \"ol\": 3}\nnonsense\n").find("line 2"),
            std::string::npos);
  EXPECT_NE(ErrorOf("req_id,req_time_s,adapter,prompt_len,output_len\n0,1.5\n").find("line 2"),
            std::string::npos);
  EXPECT_FALSE(ReadTrace(Write("")).ok());
  EXPECT_NE(ReadTrace("trace.csv.gz").status().message().find("unpack"), std::string::npos);
  EXPECT_FALSE(ReadTrace("/nowhere/trace.csv").ok());
}

TEST_F(TraceTest, LoadTimes) {
  const auto times =
      ReadLoadTimes(Write("timestamp_anon,value,container_ip\n1.0,7109.0,a\n2,5,b\n"));
  ASSERT_TRUE(times.ok()) << times.status().ToString();
  EXPECT_EQ(*times, (std::vector<double>{7109.0, 5.0}));
  EXPECT_NE(ReadLoadTimes(Write("a,b\n1,2\n")).status().message().find("fetch_ms"),
            std::string::npos);
  EXPECT_NE(ReadLoadTimes(Write("fetch_ms\n12\n0\n")).status().message().find("line 3"),
            std::string::npos);
}

}  // namespace
}  // namespace graft
