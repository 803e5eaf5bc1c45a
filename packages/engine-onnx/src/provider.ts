import type ort from "onnxruntime-node";
import { endsLayoutOfConvolutions } from "./half-floats.ts";

/** Execution provider: the CPU, any GPU over Vulkan, or an NVIDIA GPU. */
export type Provider = "cpu" | "webgpu" | "cuda";
export const PROVIDERS: readonly Provider[] = ["cpu", "webgpu", "cuda"];
export const isProvider = (text: string): text is Provider => (PROVIDERS as readonly string[]).includes(text);

const NEEDS: Readonly<Record<Provider, string>> = {
  cpu: "onnxruntime-node brings everything: install the packages again (npm ci)",
  webgpu:
    "it needs a Vulkan driver and libvulkan.so.1: the GPU maker's driver with `apt-get install libvulkan1`, or without a GPU a software " +
    "driver, Mesa 25 or newer: `export $(infra/webgpu/fetch-driver.sh)` before the start brings one",
  cuda:
    "it needs an NVIDIA driver, CUDA 13's libraries and the provider's own: `export $(infra/cuda/fetch-provider.sh)` before the start brings " +
    "all but the driver; --provider webgpu uses the same GPU with its driver alone",
};

/** @param detail - onnxruntime's message; the C++ source lines that it begins with are left out */
export function providerProblem(provider: Provider, detail: string): string {
  const said = detail.replace(/^.*\bwas false\. /s, "").trim();
  return `the ${provider} provider doesn't work here (${said}): ${NEEDS[provider]}`;
}

/**
 * Largest accepted difference of a provider's outputs from the CPU's, as a share of an output's largest value. CUDA
 * multiplies in TF32 (10 bits) on newer GPUs, which is several times as fast; a 12-layer encoder was 1.8e-3 away then.
 * NVIDIA_TF32_OVERRIDE=0 in the environment makes it compute with all bits.
 */
export const differenceMax = (provider: Provider): number =>
  provider === "cuda" && process.env["NVIDIA_TF32_OVERRIDE"] !== "0" ? 1e-2 : 1e-3;

export interface SessionSettings {
  readonly provider: Provider;
  readonly threads: number;
  /** With CUDA: the GPU, as nvidia-smi counts them. */
  readonly device: number;
}

/**
 * Session options of a provider. One thread by default: an executor on a CPU is one core, and more executors are better
 * than wider ones (two threads take 5.1 to 3.2 ms for 45 % more CPU). Severity 4: an error reaches its batch's outcome,
 * so the native logger need not print it as well.
 *
 * @param bytes - the file
 */
export function sessionOptions(
  { provider, threads, device }: SessionSettings,
  bytes: Uint8Array,
): ort.InferenceSession.SessionOptions {
  return {
    executionProviders: [provider === "cuda" ? { name: provider, deviceId: device } : provider],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    graphOptimizationLevel: endsLayoutOfConvolutions(bytes) ? "layout" : "all",
    // A pattern would be kept for every shape, and each batch size is one: without them the demo's text detector takes
    // 130 MB less, and no model runs slower.
    enableMemPattern: false,
    logSeverityLevel: 4,
  };
}

/**
 * x f32[batch, 4] + 1, for trying a provider: the output of `generateAddOne()` of @tutti/onnx-tools, written out
 * because no layer above may be imported here.
 */
export const PROBE_MODEL_BASE64 =
  "CAgSBXR1dHRpOmMKEwoBeAoDb25lEgF5GgF5IgNBZGQSB2FkZC1vbmUqDwgBEAFCA29uZUoEAACAP1oYCgF4EhMKEQgBEg0KBxIFYmF0Y2gKAggEYhgKAXkSEwoRCAESDQoHEgViYXRjaAoCCARCBAoAEBE=";
