/**
 * Validates a media input from a store or a file before anything is decoded by it. Otherwise anyone who may load a
 * model could make a gateway fill its memory.
 */
import { REQUEST_BYTES_MAX } from "@tutti/protocol";
import type { AudioInput, ImageInput, MediaInput, SoundInput } from "./presentation.ts";

const RESIZES = ["stretch", "crop", "letterbox", "line", "fit"] as const satisfies ImageInput["resize"][];
const ORDERS = ["rgb", "bgr", "grey"] as const satisfies ImageInput["order"][];
/** Most bytes of the tensor in a request with only one; the rest is for its name and shape. */
export const TENSOR_BYTES = REQUEST_BYTES_MAX - 1_024;
/**
 * Most bytes at the declared size. `fit` only bounds a picture's size, so its bound may exceed what fits in a request.
 */
const DECLARED_BYTES = 4 * REQUEST_BYTES_MAX;
/** Highest sampling rate: twice studio quality. */
const SAMPLE_RATE_MAX = 384_000;

/**
 * @returns undefined for anything that is no media input, or whose tensors would be far larger than a request may be
 */
export function readMediaInput(value: unknown): MediaInput | undefined {
  if (!isMap(value) || typeof value["tensor"] !== "string" || value["tensor"] === "") return undefined;
  const kind = String(value["kind"]);
  const isRead = Object.hasOwn(READERS, kind) && READERS[kind as MediaInput["kind"]](value);
  return isRead ? (value as unknown as MediaInput) : undefined;
}

/** Bytes of the largest tensor that such a picture becomes. */
export const imageBytes = ({ height, width, order, type }: Pick<ImageInput, "height" | "width" | "order" | "type">) =>
  height * width * (order === "grey" ? 1 : 3) * (type === "UINT8" ? 1 : 4);

/** Most samples that fit in a request as f32. */
export const SOUND_SAMPLES = TENSOR_BYTES / 4;

type Map = Readonly<Record<string, unknown>>;
type Unread<T> = { readonly [Key in keyof T]?: unknown };

const READERS: Readonly<Record<MediaInput["kind"], (value: Map) => boolean>> = {
  image: ({ resize, height, width, order, mean, std, layout, type }: Unread<ImageInput>) =>
    (RESIZES as readonly unknown[]).includes(resize) &&
    (ORDERS as readonly unknown[]).includes(order) &&
    [undefined, "NCHW", "NHWC"].includes(layout as string) &&
    [undefined, "FP32", "UINT8"].includes(type as string) &&
    isCount(height) &&
    isCount(width) &&
    imageBytes({ height, width, order, type } as ImageInput) <= DECLARED_BYTES &&
    isTriple(mean) &&
    isTriple(std) &&
    std.every((one) => one !== 0),
  audio: ({ sampleRate, frame, context, state }: Unread<AudioInput>) =>
    isRate(sampleRate) &&
    isCount(frame) &&
    (context === 0 || isCount(context)) &&
    frame + context <= SOUND_SAMPLES &&
    isMap(state) &&
    typeof state["input"] === "string" &&
    typeof state["output"] === "string" &&
    Array.isArray(state["dims"]) &&
    state["dims"].every(isCount) &&
    state["dims"].reduce((product: number, dim: number) => product * dim, 4) <= TENSOR_BYTES,
  sound: ({ sampleRate, rank, samples }: Unread<SoundInput>) =>
    isRate(sampleRate) &&
    (rank === 2 || rank === 3) &&
    (samples === undefined || (isCount(samples) && samples <= SOUND_SAMPLES)),
};

const isMap = (value: unknown): value is Map => typeof value === "object" && value !== null && !Array.isArray(value);
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;
const isRate = (value: unknown): boolean => isCount(value) && value <= SAMPLE_RATE_MAX;
const isTriple = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length === 3 && value.every((one) => Number.isFinite(one));
