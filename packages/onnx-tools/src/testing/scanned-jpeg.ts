/** A JPEG file of one colour with as many scans as one wants: small to send, expensive to decode. */

export interface ScannedJpeg {
  readonly width: number;
  readonly height: number;
  /** Scans in all, 1 + 3 for each band of coefficients. */
  readonly scans: number;
  /** Marker of its frame. Default: 0xc2, progressive with Huffman codes. */
  readonly frame?: number;
}

const COMPONENTS = [1, 2, 3] as const;
/** Longest run of blocks without coefficients that one code stands for. */
const RUN = 32_767;
const RUN_CODE = 0xe0;

export function scannedJpeg({ width, height, scans, frame = 0xc2 }: ScannedJpeg): Uint8Array<ArrayBuffer> {
  const bands = (scans - 1) / COMPONENTS.length;
  if (!Number.isInteger(bands) || bands < 0 || bands > 63) throw new RangeError(`${scans} scans can't be written`);
  const blocks = Math.ceil(width / 8) * Math.ceil(height / 8);
  const size = [height >> 8, height & 255, width >> 8, width & 255];
  const runs = runsOf(Math.ceil(blocks / RUN));
  const parts: Uint8Array[] = [
    Buffer.from([0xff, 0xd8]),
    segment(0xdb, [0, ...new Array<number>(64).fill(1)]),
    segment(frame, [8, ...size, 3, ...COMPONENTS.flatMap((component) => [component, 0x11, 0])]),
    codeTable(0x00, 0),
    codeTable(0x10, RUN_CODE),
    scanOf(COMPONENTS, 0, 0),
    Buffer.alloc(Math.ceil((blocks * 3) / 8)), // a difference of 0 is one bit, 0
  ];
  for (let band = 0; band < bands; band++) {
    const [first, last] = [1 + Math.floor((63 * band) / bands), Math.floor((63 * (band + 1)) / bands)];
    for (const component of COMPONENTS) parts.push(scanOf([component], first, last), runs);
  }
  return new Uint8Array(Buffer.concat([...parts, Buffer.from([0xff, 0xd9])]));
}

const segment = (marker: number, body: readonly number[]): Buffer =>
  Buffer.from([0xff, marker, (body.length + 2) >> 8, (body.length + 2) & 255, ...body]);
/** A table with one code, of one bit. */
const codeTable = (id: number, symbol: number): Buffer =>
  segment(0xc4, [id, 1, ...new Array<number>(15).fill(0), symbol]);
const scanOf = (components: readonly number[], first: number, last: number): Buffer =>
  segment(0xda, [components.length, ...components.flatMap((one) => [one, 0]), first, last, 0]);

/** So many runs of RUN blocks: a code of one bit, 0, and 14 bits of 1 each. */
function runsOf(count: number): Buffer {
  const bits = `0${"1".repeat(14)}`.repeat(count);
  const bytes = bits.match(/.{1,8}/g)!.map((eight) => parseInt(eight.padEnd(8, "1"), 2));
  return Buffer.from(bytes.flatMap((byte) => (byte === 0xff ? [0xff, 0] : [byte])));
}
