import { TuttiError } from "@tutti/protocol";

export interface Sound {
  readonly sampleRate: number;
  /** In −1 … 1; several channels are averaged to one. */
  readonly samples: Float32Array;
}

/** Most chunks before the samples: recorders write a few, and a file has room for millions of empty ones. */
const CHUNKS_MAX = 256;
const PCM = 1;
const EXTENSIBLE = 0xfffe;

/**
 * Reads a WAV file with 16-bit PCM; chunks other than `fmt ` and `data` are skipped.
 *
 * @throws {TuttiError} INVALID_INPUT saying how to convert what can't be read
 */
export function parseWav(bytes: Uint8Array): Sound {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tag = (offset: number): string => String.fromCharCode(...bytes.subarray(offset, offset + 4));
  if (bytes.length < 12 || tag(0) !== "RIFF" || tag(8) !== "WAVE") return refuse("this is no WAV file");

  let format: { channels: number; sampleRate: number } | undefined;
  for (let offset = 12, chunks = 0; offset + 8 <= bytes.length; chunks++) {
    if (chunks >= CHUNKS_MAX) return refuse(`it has more than ${CHUNKS_MAX} chunks before its samples`);
    const size = view.getUint32(offset + 4, true);
    const body = offset + 8;
    if (tag(offset) === "fmt ") {
      if (size < 16 || body + size > bytes.length) return refuse("its format chunk breaks off");
      format = formatOf(view, body);
    } else if (tag(offset) === "data") {
      if (format === undefined) return refuse("its samples come before their format");
      // Recorders that were cut off leave 0 or 2^32 − 1 here: read to the end of the file.
      const end = Math.min(bytes.length, size === 0 ? bytes.length : body + size);
      return { sampleRate: format.sampleRate, samples: monoOf(view, { body, end, channels: format.channels }) };
    }
    offset = body + size + (size % 2); // chunks are padded to even length
  }
  return refuse("it has no samples");
}

/** Writes a file with one channel of 16-bit PCM, for tests and for sounds that are not in a file. */
export function writeWav({ sampleRate, samples }: Sound): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(44 + samples.length * 2);
  const view = new DataView(bytes.buffer);
  const put = (at: number, tag: string): void => bytes.set(new TextEncoder().encode(tag), at);
  put(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  put(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, PCM, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  put(36, "data");
  view.setUint32(40, samples.length * 2, true);
  for (const [i, sample] of samples.entries())
    view.setInt16(44 + 2 * i, Math.max(-32_768, Math.min(32_767, Math.round(sample * 32_768))), true);
  return bytes;
}

function formatOf(view: DataView, body: number): { channels: number; sampleRate: number } {
  const code = view.getUint16(body, true);
  const channels = view.getUint16(body + 2, true);
  const sampleRate = view.getUint32(body + 4, true);
  const bits = view.getUint16(body + 14, true);
  if ((code !== PCM && code !== EXTENSIBLE) || bits !== 16)
    return refuse(`it has ${bits}-bit samples of format ${code}`);
  if (channels === 0 || sampleRate === 0) return refuse("it names no channels or no sampling rate");
  return { channels, sampleRate };
}

function monoOf(
  view: DataView,
  { body, end, channels }: { body: number; end: number; channels: number },
): Float32Array {
  const samples = new Float32Array(Math.floor((end - body) / (2 * channels)));
  for (let i = 0; i < samples.length; i++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++)
      sum += view.getInt16(body + 2 * (i * channels + channel), true);
    samples[i] = sum / (channels * 32768);
  }
  return samples;
}

function refuse(what: string): never {
  const text = `${what}; 16-bit PCM WAV is read: ffmpeg -i sound -ar 16000 -ac 1 -c:a pcm_s16le sound.wav`;
  throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
}
