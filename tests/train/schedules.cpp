// Learning rates, numbers of steps and arguments. The expected values come from Transformers 5.22.2.
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/arguments.h"
#include "train/learning_rate.h"
#include "train/optimizer.h"

namespace tenon::train {
namespace {

using test::expect_error;

TEST(Schedules, FactorsAreThoseOfTransformers) {
  struct Expected {
    int64_t step;
    double linear, cosine, constant;
  };
  const Expected all[] = {{0, 0, 0, 0},
                          {1, 0.3333333333333333, 0.3333333333333333, 0.3333333333333333},
                          {3, 1, 1, 1},
                          {5, 0.7142857142857143, 0.8117449009293668, 1},
                          {7, 0.42857142857142855, 0.38873953302184283, 1},
                          {9, 0.14285714285714285, 0.04951556604879048, 1},
                          {10, 0, 0, 1}};
  for (const Expected& expected : all) {
    EXPECT_EQ(learning_rate_factor("linear", expected.step, 3, 10), expected.linear) << expected.step;
    EXPECT_EQ(learning_rate_factor("cosine", expected.step, 3, 10), expected.cosine) << expected.step;
    EXPECT_EQ(learning_rate_factor("constant_with_warmup", expected.step, 3, 10), expected.constant) << expected.step;
    EXPECT_EQ(learning_rate_factor("constant", expected.step, 3, 10), 1);
  }
}

TEST(Schedules, StepsOfEpochsAndOfMaxSteps) {
  // 11 examples in batches of 3 are 4 batches, 2 optimizer steps.
  TrainingArguments arguments{.num_train_epochs = 2.5, .per_device_train_batch_size = 3, .gradient_accumulation_steps = 2};
  StepPlan plan = plan_steps(arguments, 11);
  EXPECT_EQ(plan.batches_per_epoch, 4);
  EXPECT_EQ(plan.steps_per_epoch, 2);
  EXPECT_EQ(plan.max_steps, 5);
  EXPECT_EQ(plan.epochs, 3);
  arguments.max_steps = 7;
  EXPECT_EQ(plan_steps(arguments, 11).max_steps, 7);
  EXPECT_EQ(plan_steps(arguments, 11).epochs, 4);
  EXPECT_EQ(plan_steps(arguments, 1).steps_per_epoch, 1);
}

TEST(Schedules, WarmupIsANumberOrAFraction) {
  auto warmup = [](double steps, double ratio) {
    return plan_steps({.max_steps = 10, .warmup_steps = steps, .warmup_ratio = ratio}, 100).warmup_steps;
  };
  EXPECT_EQ(warmup(0, 0), 0);
  EXPECT_EQ(warmup(4, 0.9), 4);
  EXPECT_EQ(warmup(0.25, 0), 3);
  EXPECT_EQ(warmup(0, 0.25), 3);
  EXPECT_EQ(warmup(0, 1), 10);
}

TEST(Schedules, WeightDecayExcludesBiasesAndNorms) {
  for (const char* name : {"model.layers.0.self_attn.q_proj.lora_A.weight", "fc.weight", "normal.weight"})
    EXPECT_TRUE(decays(name)) << name;
  for (const char* name : {"fc.bias", "model.norm.weight", "norm.weight", "input_LayerNorm.weight", "q_norm.weight", "rmsnorm.scale",
                           "model.layers.0.post_attention_layernorm.ln_tuning_layers.weight"})
    EXPECT_FALSE(decays(name)) << name;
}

TEST(Arguments, DefaultsAndJson) {
  TrainingArguments arguments = read_training_arguments("{}");
  EXPECT_EQ(arguments.num_train_epochs, 3.0);
  EXPECT_EQ(arguments.learning_rate, 5e-5);
  EXPECT_EQ(arguments.seed, 42);
  arguments = read_training_arguments(R"({"learning_rate": 1e-4, "max_steps": 20, "bf16": true, "lr_scheduler_type": "cosine",
                                          "save_total_limit": null, "resume_from_checkpoint": true})");
  EXPECT_EQ(arguments.learning_rate, 1e-4);
  EXPECT_EQ(arguments.max_steps, 20);
  EXPECT_TRUE(arguments.bf16);
  EXPECT_EQ(arguments.lr_scheduler_type, "cosine");
  EXPECT_EQ(arguments.save_total_limit, 0);
  EXPECT_EQ(arguments.resume_from_checkpoint, "last");
  EXPECT_EQ(read_training_arguments(R"({"seed": 1})", "file", arguments).max_steps, 20);
}

TEST(Arguments, AnUnknownFieldNamesTheNearest) {
  expect_error(ErrorCode::config, {"training.json", "\"lerning_rate\" does not exist", "\"learning_rate\""},
               [] { read_training_arguments(R"({"lerning_rate": 1})", "training.json"); });
  expect_error(ErrorCode::config, {"\"batch_size\"", "_batch_size\""}, [] { read_training_arguments(R"({"batch_size": 1})"); });
  expect_error(ErrorCode::config, {"\"max_steps\"", "integer"}, [] { read_training_arguments(R"({"max_steps": "many"})"); });
  expect_error(ErrorCode::config, {"\"learning_rate\"", "-1"}, [] { read_training_arguments(R"({"learning_rate": -1})"); });
}

TEST(Arguments, SenselessValuesAreRefused) {
  expect_error(ErrorCode::config, {"\"gradient_accumulation_steps\" is 0"}, [] { check_arguments({.gradient_accumulation_steps = 0}); });
  expect_error(ErrorCode::config, {"\"lr_scheduler_type\"", "\"step\"", "constant_with_warmup"},
               [] { check_arguments({.lr_scheduler_type = "step"}); });
  expect_error(ErrorCode::config, {"\"torch_compile_mode\"", "max-autotune"}, [] { check_arguments({.torch_compile_mode = "fast"}); });
  expect_error(ErrorCode::config, {"\"max_steps\" is 0"}, [] { check_arguments({.max_steps = 0}); });
  EXPECT_NO_THROW(check_arguments({}));
}

}  // namespace
}  // namespace tenon::train
