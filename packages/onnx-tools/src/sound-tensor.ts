import { type Tensor, TuttiError } from "@tutti/protocol";
import { SOUND_SAMPLES } from "./media-input.ts";
import type { SoundInput } from "./presentation.ts";
import { tensorOf } from "./tensor-values.ts";
import type { Sound } from "./wav.ts";

/**
 * A whole sound as one tensor, filled up with silence where the model takes a fixed number of samples.
 *
 * @returns f32[1, samples] or f32[1, 1, samples], in −1 … 1
 * @throws {TuttiError} INVALID_INPUT for another sampling rate or no sample, TOO_LARGE for more than the model or a
 *   request takes
 */
export function soundTensor({ samples, sampleRate }: Sound, input: SoundInput): Tensor {
  checkRate(sampleRate, input.sampleRate);
  if (samples.length === 0) throw refused("TUTTI_INVALID_INPUT", "the sound has no samples");
  const most = input.samples ?? SOUND_SAMPLES;
  if (samples.length > most) {
    const lasts = (count: number): string => `${(count / sampleRate).toFixed(1)} s`;
    const text = `the sound lasts ${lasts(samples.length)}, the model takes ${lasts(most)}: cut it, ffmpeg -i sound.wav -t ${(most / sampleRate).toFixed(2)} part.wav`;
    throw refused("TUTTI_TOO_LARGE", text);
  }
  const values = new Float32Array(input.samples ?? samples.length);
  values.set(samples);
  return tensorOf(input.tensor, "FP32", input.rank === 2 ? [1, values.length] : [1, 1, values.length], values);
}

/**
 * Refuses another sampling rate: a model's answer to a sound at a wrong rate is wrong, and looks right. @throws
 * {TuttiError} INVALID_INPUT with the ffmpeg command that resamples it
 */
export function checkRate(given: number, taken: number): void {
  if (given === taken) return;
  const text = `the sound has ${given} samples a second, the model takes ${taken}: ffmpeg -i sound.wav -ar ${taken} -ac 1 other.wav`;
  throw refused("TUTTI_INVALID_INPUT", text);
}

const refused = (code: "TUTTI_INVALID_INPUT" | "TUTTI_TOO_LARGE", text: string): TuttiError =>
  new TuttiError(code, text, { retryable: false });
