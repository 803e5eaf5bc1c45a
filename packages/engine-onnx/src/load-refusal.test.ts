import { expect, test } from "vitest";
import { textOf } from "./load-refusal.ts";

test.each([
  [
    "/onnxruntime_src/onnxruntime/core/graph/model.cc:202 onnxruntime::Model::Model(onnx::ModelProto&&, const onnxruntime::PathString&, const onnxruntime::logging::Logger&) Unsupported model IR version: 99, max supported IR version: 13\n",
    "Unsupported model IR version: 99, max supported IR version: 13",
  ],
  [
    "/onnxruntime_src/onnxruntime/core/graph/model_load_utils.h:46 void onnxruntime::model_load_utils::ValidateOpsetForDomain(const std::unordered_map<std::__cxx11::basic_string<char>, int>&, bool, int) ONNX Runtime only *guarantees* support",
    "ONNX Runtime only *guarantees* support",
  ],
  [
    "Non-zero status code returned while running Reshape node. Name:'' Status Message: /onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:84 onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, bool) size != 0 was false. Input shape:{1,8}\n",
    "Non-zero status code returned while running Reshape node. Name:'' Status Message: size != 0 was false. Input shape:{1,8}",
  ],
  ["/onnxruntime_src/a.cc:1 void f(int (&)(char)) const [with T = int] This is (very) wrong", "This is (very) wrong"],
  ["This is an invalid model. In Node, (x)", "This is an invalid model. In Node, (x)"],
])("onnxruntime's words are told without the place in its sources (%#)", (words, text) => {
  expect(textOf(new Error(words))).toBe(text);
});
