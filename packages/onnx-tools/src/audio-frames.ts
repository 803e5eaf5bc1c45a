import { type Tensor, TuttiError } from "@tutti/protocol";
import { assert } from "@tutti/units";
import type { AudioInput } from "./presentation.ts";
import { checkRate } from "./sound-tensor.ts";
import { tensorOf } from "./tensor-values.ts";
import type { Sound } from "./wav.ts";

/** Most samples: an hour at 16 kHz. More is a mistake on a command line, and would be held in memory. */
export const SAMPLES_MAX = 57_600_000;

/**
 * Cuts sound into the frames that a voice detector takes. Each has the last `context` samples before it (silence before
 * the first) and `frame` new ones; the last frame is filled up with silence.
 *
 * @returns f32[1, context + frame] each, in order
 * @throws {TuttiError} INVALID_INPUT for another sampling rate, or too long a sound
 */
export function audioFrames(sound: Sound, input: AudioInput): Tensor[] {
  const { samples, sampleRate } = sound;
  checkRate(sampleRate, input.sampleRate);
  if (samples.length === 0 || samples.length > SAMPLES_MAX) {
    const text = `the sound has ${samples.length} samples; 1 to ${SAMPLES_MAX} are taken`;
    throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
  }
  const { frame, context, tensor } = input;
  assert(frame > 0 && context >= 0, "a frame has samples");
  const frames: Tensor[] = [];
  for (let start = 0; start < samples.length; start += frame) {
    const values = new Float32Array(context + frame);
    const from = Math.max(0, start - context);
    values.set(samples.subarray(from, start + frame), context - (start - from));
    frames.push(tensorOf(tensor, "FP32", [1, values.length], values));
  }
  return frames;
}

/** The state before the first frame: zeros. */
export function initialState(input: AudioInput): Tensor {
  const { dims, input: name } = input.state;
  return tensorOf(name, "FP32", dims, new Float32Array(dims.reduce((product, dim) => product * dim, 1)));
}
