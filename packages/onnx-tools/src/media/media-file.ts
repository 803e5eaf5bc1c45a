/** Converts a media file into a model's input tensors. */
import { type Tensor, TuttiError } from "@tutti/protocol";
import { audioFrames } from "../audio-frames.ts";
import type { MediaInput } from "../presentation.ts";
import { soundTensor } from "../sound-tensor.ts";
import { parseWav } from "../wav.ts";
import { type PictureDecoder, decodeHere, pictureTensor } from "./picture-file.ts";

export interface MediaOptions {
  readonly framesMax?: number;
  readonly decode?: PictureDecoder;
}

/**
 * Converts a file into the tensors of one request. Where the model takes sound frame by frame (`input.kind` is audio),
 * it makes the tensors of several requests, one after the other.
 *
 * @param options.framesMax - more frames are refused before they are made
 * @param options.decode - decodes pictures; default: in this process
 * @throws {TuttiError} INVALID_INPUT, TOO_LARGE saying what to do
 */
export async function mediaTensors(
  bytes: Uint8Array,
  input: MediaInput,
  { framesMax = Infinity, decode = decodeHere }: MediaOptions = {},
): Promise<readonly Tensor[]> {
  switch (input.kind) {
    case "image":
      return [await pictureTensor(bytes, input, decode)];
    case "sound":
      return [soundTensor(parseWav(bytes), input)];
    case "audio": {
      const sound = parseWav(bytes);
      const frames = Math.ceil(sound.samples.length / input.frame);
      if (frames > framesMax) {
        const seconds = ((framesMax * input.frame) / input.sampleRate).toFixed(1);
        const text = `the sound has ${frames} frames, at most ${framesMax} (${seconds} s) are taken at once: cut it, ffmpeg -i sound.wav -t ${seconds} part.wav`;
        throw new TuttiError("TUTTI_TOO_LARGE", text, { retryable: false });
      }
      return audioFrames(sound, input);
    }
  }
}
