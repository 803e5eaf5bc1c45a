import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  VAD_AUDIO,
  audioFrames,
  decodeCtc,
  demoModel,
  floatsOf,
  imageTensor,
  initialState,
  parseKeys,
  parseWav,
  presentationOf,
  readNpy,
  resizedTo,
  writeNpy,
  writeWav,
} from "./index.ts";
import type { ImageInput } from "./index.ts";
import { tensorOf } from "./tensor-values.ts";

const fixture = (name: string): Uint8Array =>
  readFileSync(fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url)));
const messageOf = (act: () => unknown): string => {
  try {
    act();
  } catch (error) {
    expect(error).toMatchObject({ code: "TUTTI_INVALID_INPUT", retryable: false });
    return (error as Error).message;
  }
  return "no refusal";
};
const LINE = presentationOf(demoModel("ocr-rec").config.presentation).input as ImageInput;

test("pixels become planes in OpenCV's channel order, from −1 to 1", () => {
  const rgb = Uint8Array.of(255, 0, 51, 0, 255, 51);
  const tensor = imageTensor({ rgb, width: 2, height: 1 }, LINE);
  expect(tensor.dims).toEqual([1, 3, 1, 2]);
  expect([...floatsOf(tensor)].map((value) => Number(value.toFixed(3)))).toEqual([-0.6, -0.6, -1, 1, 1, -1]);
  expect(messageOf(() => imageTensor({ rgb, width: 1, height: 1 }, LINE))).toContain("remove its alpha channel");
});

test("a line of text keeps its proportions up to the widest bucket, a page its sides within the largest", () => {
  expect(resizedTo(LINE, { width: 208, height: 64 })).toEqual({ width: 156, height: 48 });
  expect(resizedTo(LINE, { width: 9000, height: 64 })).toEqual({ width: 320, height: 48 });
  const page = presentationOf(demoModel("ocr-det").config.presentation).input as ImageInput;
  expect(resizedTo(page, { width: 1280, height: 960 })).toEqual({ width: 640, height: 480 });
  expect(resizedTo(page, { width: 100, height: 20 })).toEqual({ width: 96, height: 32 });
});

test("greedy CTC merges repeats, keeps letters that a blank divides, and trims the margins", () => {
  const keys = parseKeys("a\nb\n");
  const steps = [3, 1, 1, 0, 1, 2, 3, 3];
  const values = new Float32Array(steps.length * 4);
  for (const [step, best] of steps.entries()) values[step * 4 + best] = 0.9;
  const output = tensorOf("y", "FP32", [1, steps.length, 4], values);
  expect(decodeCtc(output, keys)).toEqual({ text: "aab", confidence: expect.closeTo(0.9, 5) });
  expect(decodeCtc(tensorOf("y", "FP32", [1, 0, 4], new Float32Array(0)), keys)).toEqual({ text: "", confidence: 0 });
  expect(messageOf(() => decodeCtc(output, ["a"]))).toContain("don't belong together");
});

test("a recording is cut into frames that overlap by the model's context", () => {
  const sound = parseWav(fixture("speech.wav"));
  expect([sound.sampleRate, sound.samples.length]).toEqual([16_000, 36 * 512]);
  const frames = audioFrames(sound, VAD_AUDIO).map(floatsOf);
  expect(frames.length).toBe(36);
  expect([...(frames[0] as Float32Array).subarray(0, 64)]).toEqual(new Array(64).fill(0));
  expect(frames[9]?.subarray(0, 64)).toEqual(frames[8]?.subarray(512));
  expect(frames[9]?.subarray(64)).toEqual(sound.samples.subarray(9 * 512, 10 * 512));
  expect(initialState(VAD_AUDIO)).toMatchObject({ name: "state", dims: [2, 1, 128] });
});

test("the last frame is filled up with silence, and another sampling rate is refused with the cure", () => {
  const samples = new Float32Array(600).fill(0.5);
  const frames = audioFrames({ sampleRate: 16_000, samples }, VAD_AUDIO).map(floatsOf);
  expect([frames.length, frames[1]?.[64 + 87], frames[1]?.[64 + 88]]).toEqual([2, 0.5, 0]);
  expect(messageOf(() => audioFrames({ sampleRate: 44_100, samples }, VAD_AUDIO))).toContain("-ar 16000");
});

test("what is written as WAV is read again, cut off at full scale", () => {
  const samples = Float32Array.of(0, 0.5, -0.25, -1, 2, 1 / 32_768);
  const read = parseWav(writeWav({ sampleRate: 8_000, samples }));
  expect(read.sampleRate).toBe(8_000);
  expect([...read.samples]).toEqual([0, 0.5, -0.25, -1, 32_767 / 32_768, 1 / 32_768]);
});

test("WAV: channels are averaged, unknown chunks passed over, and what can't be read is named", () => {
  const stereo = wav({ channels: 2, bits: 16, code: 1, extra: true }, [16384, -16384, 32767, 32767]);
  expect([...parseWav(stereo).samples]).toEqual([0, 32767 / 32768]);
  expect(messageOf(() => parseWav(wav({ channels: 1, bits: 24, code: 1 }, [])))).toContain("24-bit samples");
  expect(messageOf(() => parseWav(wav({ channels: 1, bits: 32, code: 3 }, [])))).toContain("format 3");
  expect(messageOf(() => parseWav(new Uint8Array(4)))).toContain("no WAV file");
  const empty = new TextEncoder().encode(`RIFF    WAVE${"LIST\0\0\0\0".repeat(257)}`);
  expect(messageOf(() => parseWav(empty))).toContain("more than 256 chunks");
  const speech = fixture("speech.wav");
  for (const length of [13, 20, 30, 40])
    expect(messageOf(() => parseWav(speech.subarray(0, length)))).toContain("ffmpeg");
});

test("NumPy arrays are read with their shape and type, and f64 is rounded where f32 is wanted", () => {
  const values = Float64Array.of(1.5, -2, 3, 4, 5, 0.1);
  const file = npy("<f8", "(2, 3)", values);
  const pooled = Buffer.concat([Buffer.of(0), file]).subarray(1); // at an odd address
  expect([...floatsOf(readNpy(pooled, { name: "x", type: "FP32" }))]).toEqual([...Float32Array.from(values)]);
  expect(readNpy(file, { name: "x" })).toMatchObject({ name: "x", type: "FP64", dims: [2, 3] });
  expect([...floatsOf(readNpy(file, { name: "x", type: "FP32" }))]).toEqual([...Float32Array.from(values)]);
  expect(readNpy(npy("<i8", "(1,)", BigInt64Array.of(-7n)), { name: "n" })).toMatchObject({ type: "INT64", dims: [1] });
  expect(readNpy(npy("|b1", "()", Uint8Array.of(1)), { name: "yes" })).toMatchObject({ type: "BOOL", dims: [] });
  expect(readNpy(npy("<f4", "(0, 4)", new Float32Array(0)), { name: "none" }).dims).toEqual([0, 4]);
});

test("a .npy file that can't be read is refused with the NumPy call that helps", () => {
  const read = (file: Uint8Array): string => messageOf(() => readNpy(file, { name: "x", type: "FP32" }));
  const two = Float32Array.of(1, 2);
  expect(read(npy("<f4", "(1, 2)", two, "True"))).toContain("ascontiguousarray");
  expect(read(npy(">f4", "(2,)", two))).toContain("newbyteorder");
  expect(read(npy("<c8", "(1,)", two))).toContain("'<c8'");
  expect(read(npy("<f4", "(3,)", two))).toContain("needs 12 bytes and 8 follow");
  expect(read(npy("<i4", "(2,)", two))).toContain("'x' takes FP32");
  expect(read(npy("<f4", "(1,1,1,1,1,1,1,1,2)", two))).toContain("9 axes");
  expect(read(new Uint8Array(20))).toContain("no .npy file");
  const whole = npy("<f4", "(2,)", two);
  for (let length = 0; length < whole.length; length++)
    expect(read(whole.subarray(0, length))).toContain("can't be read");
});

test("an array that is written reads as the same, and its bytes are those that numpy.save writes", () => {
  for (const [type, dims, values] of [
    ["FP32", [2, 3], Float32Array.of(1, -2, 3.5, 0, NaN, Infinity)],
    ["INT64", [2], BigInt64Array.of(-7n, 2n ** 62n)],
    ["BOOL", [1, 2], Uint8Array.of(1, 0)],
    ["FP16", [], Uint16Array.of(0x3c00)],
    ["FP64", [0, 4], new Float64Array(0)],
  ] as const) {
    const data = new Uint8Array(values.buffer);
    const file = writeNpy({ type, dims, data });
    expect(readNpy(file, { name: "y" })).toEqual({ name: "y", type, dims, data });
    expect((file.length - data.length) % 64).toBe(0);
  }
  // numpy.save(f, numpy.array([1, 2], dtype="<f4")), NumPy 2.4
  const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".padEnd(117);
  expect(Buffer.from(writeNpy({ type: "FP32", dims: [2], data: new Uint8Array(8) })).toString("latin1")).toBe(
    `\u0093NUMPY\u0001\0v\0${header}\n\0\0\0\0\0\0\0\0`,
  );
});

function npy(descr: string, shape: string, values: ArrayBufferView, order = "False"): Uint8Array {
  const header = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': ${shape}, }\n`;
  const bytes = new Uint8Array(10 + header.length + values.byteLength);
  bytes.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, header.length & 255, header.length >> 8]);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 10 + header.length);
  return bytes;
}

interface WavFormat {
  readonly channels: number;
  readonly bits: number;
  readonly code: number;
  readonly extra?: boolean;
}
function wav({ channels, bits, code, extra = false }: WavFormat, samples: readonly number[]): Uint8Array {
  const ascii = (text: string): number[] => [...new TextEncoder().encode(text)];
  const u32 = (value: number): number[] => [...new Uint8Array(Uint32Array.of(value).buffer)];
  const u16 = (value: number): number[] => [...new Uint8Array(Uint16Array.of(value).buffer)];
  const data = [...new Uint8Array(Int16Array.from(samples).buffer)];
  const list = extra ? [...ascii("LIST"), ...u32(3), 1, 2, 3, 0] : []; // of odd length, so padded
  const format = [
    ...u16(code),
    ...u16(channels),
    ...u32(16_000),
    ...u32(32_000 * channels),
    ...u16(2 * channels),
    ...u16(bits),
  ];
  const chunks = [...list, ...ascii("fmt "), ...u32(16), ...format, ...ascii("data"), ...u32(data.length), ...data];
  return Uint8Array.from([...ascii("RIFF"), ...u32(4 + chunks.length), ...ascii("WAVE"), ...chunks]);
}
