/** The decoding step that MediaBodies runs on its threads. */
import { presentationOf } from "@tutti/onnx-tools";
import { PictureProcess, mediaTensors } from "@tutti/onnx-tools/media";
import { TuttiError } from "@tutti/protocol";
import { type StageRequests, type StepInput, fromTensors } from "@tutti/ports/steps";

/** Frames of one sound, each a request that waits for the one before it: a minute of 32 ms each. */
export const SOUND_FRAMES_MAX = 2_048;

/** Each thread has one. */
const pictures = new PictureProcess();
pictures.start();

/** @throws {TuttiError} INVALID_INPUT, TOO_LARGE, CANCELLED */
export async function toTensors({
  input: { file },
  request: { parameters },
  signal,
}: StepInput): Promise<StageRequests> {
  const { input } = presentationOf(parameters);
  if (!(file?.data instanceof Uint8Array) || input === undefined)
    throw new TuttiError("TUTTI_INTERNAL", "a picture or sound came without its bytes or without its model's input");
  const tensors = await mediaTensors(file.data, input, {
    framesMax: SOUND_FRAMES_MAX,
    decode: (bytes, target) => pictures.decode(bytes, target, signal),
  });
  return tensors.map((tensor) => fromTensors([tensor]));
}
