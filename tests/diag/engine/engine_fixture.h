// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "diag/engine/engine.h"
#include "diag/store/store.h"
#include "tests/diag/engine/test_client.h"
#include "tests/diag/store/temp_dir.h"

// An engine on a Unix socket in a folder of its own.
namespace flare::diag {

class EngineFixture : public testing::Test {
 protected:
  void SetUp() override { StartEngine(); }

  void StartEngine() {
    EngineOptions options;
    options.state_dir = dir_ / "state";
    options.listen = "unix:" + (dir_ / "engine.sock");
    options.tick_ms = 20;
    options.advertise = true;
    Result<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = std::move(*engine);
  }
  void RestartEngine() {
    engine_.reset();
    StartEngine();
  }
  std::string address() const { return "unix:" + (dir_ / "engine.sock"); }

  // The store as a second program sees it.
  std::unique_ptr<Store> OpenStore() const {
    Result<std::unique_ptr<Store>> store =
        Store::Open(dir_ / "state/flare.db", OpenMode::kReadOnly);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? std::move(*store) : nullptr;
  }

  TempDir dir_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace flare::diag
