/** Media types that may be posted as a file. This file doesn't import the decoders, which load libvips. */
import { TuttiError } from "@tutti/protocol";
import type { MediaInput } from "./presentation.ts";

export type MediaKind = "picture" | "sound";

const KINDS: ReadonlyMap<string, MediaKind> = new Map([
  ["image/jpeg", "picture"],
  ["image/jpg", "picture"], // not a registered name, but many clients send it
  ["image/png", "picture"],
  ["image/webp", "picture"],
  ["audio/wav", "sound"],
  ["audio/x-wav", "sound"],
  ["audio/wave", "sound"],
  ["audio/vnd.wave", "sound"],
]);
/** Registered names of the accepted media types, for documentation. */
export const MEDIA_TYPES = ["image/jpeg", "image/png", "image/webp", "audio/wav"] as const;

/**
 * @param contentType - Content-Type of a body, with or without parameters
 * @returns undefined for what is neither picture nor sound
 * @throws {TuttiError} INVALID_INPUT for kinds of picture and sound that are not read, naming those that are
 */
export function mediaKindOf(contentType: string | undefined): MediaKind | undefined {
  const type = contentType?.split(";", 1)[0]!.trim().toLowerCase() ?? "";
  const kind = KINDS.get(type);
  if (kind !== undefined) return kind;
  if (!/^(image|audio|video)\//.test(type)) return undefined;
  throw invalid(`${type.slice(0, 80)} isn't read: send ${MEDIA_TYPES.join(", ")}`);
}

/**
 * The model's declared input for this kind of file.
 *
 * @throws {TuttiError} INVALID_INPUT saying what to put into its configuration
 */
export function mediaInputOf(
  { name, input }: { readonly name: string; readonly input: MediaInput | undefined },
  kind: MediaKind,
): MediaInput {
  if (input !== undefined && (input.kind === "image") === (kind === "picture")) return input;
  const example = kind === "picture" ? "{image: {size: [224, 224]}}" : "{audio: {sample_rate: 16000}}";
  throw invalid(
    `"${name}" takes no ${kind}: its configuration names no pre-processor (preprocess: ${example} in config.yaml); send tensors`,
  );
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
