// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flare::diag {
namespace {

TEST(ListenAddressTest, LoopbackAndSocketsAreTaken) {
  for (const char* text :
       {"127.0.0.1:7707", "127.9.8.7:0", "localhost:1", "[::1]:65535", "unix:/run/x.sock"}) {
    EXPECT_TRUE(ParseListenAddress(text, false).ok()) << text;
  }
  EXPECT_EQ(ParseListenAddress("unix:/run/x.sock", false)->socket_path, "/run/x.sock");
}

TEST(ListenAddressTest, WhatOthersCanReachNeedsTheFlag) {
  for (const char* text : {"0.0.0.0:7707", "[::]:7707", "10.0.0.1:7707", "127.example.com:7707"}) {
    const Result<ListenAddress> refused = ParseListenAddress(text, false);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("--insecure"));
    EXPECT_TRUE(ParseListenAddress(text, true).ok()) << text;
  }
}

TEST(ListenAddressTest, NonsenseIsRefused) {
  for (const std::string& text :
       {std::string(""), std::string("7707"), std::string("localhost:"), std::string("localhost:x"),
        std::string("localhost:70000"), std::string(":7707"), std::string("unix:relative"),
        "unix:/" + std::string(200, 'x')}) {
    EXPECT_FALSE(ParseListenAddress(text, true).ok()) << text;
  }
}

}  // namespace
}  // namespace flare::diag
