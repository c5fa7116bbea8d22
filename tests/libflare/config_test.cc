// SPDX-License-Identifier: Apache-2.0
#include "libflare/config.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace flare {
namespace {

Config Read(std::initializer_list<const char*> variables) {
  std::vector<const char*> environment(variables);
  environment.push_back(nullptr);
  Config config;
  ReadConfig(environment.data(), 1000, 77, &config);
  return config;
}

TEST(ConfigTest, NoRankVariableMeansNoRank) {
  EXPECT_EQ(Read({"HOME=/root", "RANKING=3"}).source, RankSource::kNone);
  EXPECT_EQ(Read({"RANK=1"}).source, RankSource::kNone);
}

TEST(ConfigTest, ReadsTorchrunBeforeTheScheduler) {
  const Config config = Read({"SLURM_PROCID=7", "SLURM_NTASKS=8", "RANK=1", "WORLD_SIZE=4",
                              "LOCAL_RANK=1", "TORCHELASTIC_RESTART_COUNT=2"});
  EXPECT_EQ(config.source, RankSource::kTorchrun);
  EXPECT_EQ(config.rank, 1u);
  EXPECT_EQ(config.world_size, 4u);
  EXPECT_EQ(config.attempt, 2u);
}

TEST(ConfigTest, ReadsSchedulers) {
  EXPECT_EQ(Read({"SLURM_PROCID=7", "SLURM_NTASKS=8"}).rank, 7u);
  EXPECT_EQ(Read({"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8"}).rank, 3u);
  EXPECT_EQ(Read({"PMI_RANK=2", "PMI_SIZE=3"}).source, RankSource::kScheduler);
}

TEST(ConfigTest, NonsenseIsNoRank) {
  EXPECT_EQ(Read({"RANK=4", "WORLD_SIZE=4"}).source, RankSource::kNone);
  EXPECT_EQ(Read({"RANK=-1", "WORLD_SIZE=4"}).source, RankSource::kNone);
  EXPECT_EQ(Read({"RANK=1x", "WORLD_SIZE=4"}).source, RankSource::kNone);
  EXPECT_EQ(Read({"RANK=", "WORLD_SIZE=4"}).source, RankSource::kNone);
  EXPECT_EQ(Read({"RANK=99999999999999999999", "WORLD_SIZE=4"}).source, RankSource::kNone);
}

TEST(ConfigTest, ForceMakesARankOfAnything) {
  const Config config = Read({"FLARE_FORCE=1"});
  EXPECT_EQ(config.source, RankSource::kForced);
  EXPECT_EQ(config.rank, 0u);
  EXPECT_EQ(config.world_size, 1u);
  EXPECT_EQ(Read({"FLARE_FORCE=0"}).source, RankSource::kNone);
}

TEST(ConfigTest, DisableWins) {
  EXPECT_TRUE(Read({"FLARE_DISABLE=1", "FLARE_FORCE=1"}).disabled);
  EXPECT_FALSE(Read({"FLARE_DISABLE=0", "FLARE_FORCE=1"}).disabled);
}

TEST(ConfigTest, JobComesFromTheNearestName) {
  const auto job = [](std::initializer_list<const char*> more) {
    std::vector<const char*> all = {"RANK=0", "WORLD_SIZE=2"};
    all.insert(all.end(), more);
    all.push_back(nullptr);
    Config config;
    ReadConfig(all.data(), 1000, 77, &config);
    return std::string(config.job);
  };
  EXPECT_EQ(job({"FLARE_JOB=mine", "SLURM_JOB_ID=12"}), "mine");
  EXPECT_EQ(job({"SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "MASTER_ADDR=a"}), "12.0");
  EXPECT_EQ(job({"TORCHELASTIC_RUN_ID=r", "MASTER_ADDR=a", "MASTER_PORT=1"}), "r-a:1");
  EXPECT_EQ(job({"TORCHELASTIC_RUN_ID=none", "MASTER_ADDR=a", "MASTER_PORT=1"}), "a:1");
  EXPECT_EQ(job({}), "job-77");
}

TEST(ConfigTest, GeometryOutOfBoundsFallsBackToTheDefault) {
  EXPECT_EQ(Read({"FLARE_FORCE=1", "FLARE_RING_EVENTS=256"}).ring_events, 256u);
  for (const char* value : {"FLARE_RING_EVENTS=100", "FLARE_RING_EVENTS=32",
                            "FLARE_RING_EVENTS=131072", "FLARE_RING_EVENTS="}) {
    EXPECT_EQ(Read({"FLARE_FORCE=1", value}).ring_events, 4096u) << value;
  }
  EXPECT_EQ(Read({"FLARE_FORCE=1", "FLARE_THREADS=0"}).threads, 32u);
}

TEST(ConfigTest, DirectoryDefaultsToTheUser) {
  EXPECT_STREQ(Read({"FLARE_FORCE=1"}).directory, "/dev/shm/flare-1000");
  EXPECT_STREQ(Read({"FLARE_FORCE=1", "FLARE_DIR=/x"}).directory, "/x");
  const std::string endless = "FLARE_DIR=/" + std::string(400, 'a');
  EXPECT_TRUE(Read({"FLARE_FORCE=1", endless.c_str()}).disabled);
}

TEST(ConfigTest, LongTextsAreCut) {
  const std::string job = "FLARE_JOB=" + std::string(400, 'j');
  EXPECT_EQ(std::string(Read({"FLARE_FORCE=1", job.c_str()}).job).size(), 63u);
}

}  // namespace
}  // namespace flare
