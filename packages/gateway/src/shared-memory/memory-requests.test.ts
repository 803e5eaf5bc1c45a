/** Tensors in /dev/shm, over both transports as Triton's clients ask for them. */
import { chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServiceError } from "@grpc/grpc-js";
import { createApiKey } from "@tutti/admin/api-keys";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { GatewayScene } from "../testing/gateway-scene.ts";
import { type Asked, OipClient, TRANSPORTS, type Transport, floatBytes } from "../testing/oip-client.ts";

const KEY = `tutti-test-${process.pid}`;
const PATH = `/dev/shm/${KEY}`;

let scene: GatewayScene;
let client: OipClient;
const open = async (config: Parameters<typeof GatewayScene.open>[0]): Promise<void> => {
  scene = await GatewayScene.open(config);
  client = new OipClient(scene.addresses);
};
const close = async (): Promise<void> => {
  client.close();
  await scene.close();
};

type Act = "register" | "unregister" | "status";
/** @returns the answer's body, or the code of its error */
async function act(
  transport: Transport,
  verb: Act,
  region = "",
  more: object = {},
  headers = {},
  kind: "system" | "cuda" = "system",
): Promise<unknown> {
  if (transport === "http") {
    const path = `/v2/${kind}sharedmemory${region === "" ? "" : `/region/${region}`}/${verb}`;
    const init = verb === "status" ? {} : { method: "POST", body: JSON.stringify(more) };
    const response = await fetch(scene.addresses.http + path, { ...init, headers });
    const body = (await response.json()) as { readonly code?: string };
    return body.code ?? body;
  }
  const name = { register: "Register", unregister: "Unregister", status: "Status" }[verb];
  try {
    return await client.call(
      `${kind === "cuda" ? "Cuda" : "System"}SharedMemory${name}`,
      { name: region, ...more },
      headers,
    );
  } catch (error) {
    return (error as ServiceError).metadata.get("tutti-code")[0];
  }
}
const region = (name: string, offset: number, bytes: number) => ({
  ...{ shared_memory_region: name, shared_memory_byte_size: bytes, shared_memory_offset: offset },
});
const asked = (input: ReturnType<typeof region>, output?: ReturnType<typeof region>): Asked => ({
  inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], parameters: input }],
  outputs: [{ name: "y", ...(output !== undefined && { parameters: output }) }],
});

describe.skipIf(process.platform !== "linux")("on a machine with /dev/shm", () => {
  beforeEach(() => writeFileSync(PATH, new Uint8Array(64)));
  afterEach(async () => {
    await close();
    rmSync(PATH, { force: true });
  });

  test.each(TRANSPORTS)("inputs are read from a region and outputs written to one (%s)", async (transport) => {
    await open({ systemSharedMemory: true });
    writeFileSync(PATH, Buffer.concat([new Uint8Array(16), floatBytes(1, 2, 3, 4), new Uint8Array(32)]));
    expect(await act(transport, "register", "r", { key: `/${KEY}`, offset: 16, byte_size: 48 })).toEqual({});
    const status = { name: "r", key: `/${KEY}` };
    expect(await act(transport, "status")).toEqual(
      transport === "http"
        ? [{ ...status, offset: 16, byte_size: 48 }]
        : { regions: { r: { ...status, offset: "16", byte_size: "48" } } },
    );
    const answered = await client.ask(transport, "twice", asked(region("r", 0, 16), region("r", 32, 16)));
    expect(answered.error).toBeUndefined();
    const [output] = answered.outputs;
    expect([output!.name, output!.shape, output!.data.byteLength]).toEqual(["y", [1, 4], 0]);
    // The client of Triton in C++ takes no other parameters over HTTP than a binary_data_size.
    expect(output!.parameters).toEqual(transport === "http" ? {} : region("r", 32, 16));
    const file = new Uint8Array(readFileSync(PATH));
    expect([...new Float32Array(file.slice(48).buffer)]).toEqual([2, 4, 6, 8]);
    expect([...file.slice(0, 16), ...file.slice(32, 48)]).toEqual(Array(32).fill(0));
    const sent = await client.ask(transport, "twice", asked(region("r", 0, 16)));
    expect([...new Float32Array(sent.outputs[0]!.data.buffer)]).toEqual([2, 4, 6, 8]);
    expect(await act(transport, "unregister", "r")).toEqual({});
    expect(await act(transport, "status", "r")).toBe("TUTTI_NOT_FOUND");
  });

  /** The steps of perf_analyzer 2.60 with `--shared-memory system`, in their order. */
  test.each(TRANSPORTS)(
    "perf_analyzer's measurement through shared memory ends as it began (%s)",
    async (transport) => {
      await open({ systemSharedMemory: true });
      const giveUpAll = async (): Promise<void> => {
        for (const kind of ["system", "cuda"] as const)
          expect(await act(transport, "unregister", "", {}, {}, kind)).toEqual({});
      };
      await giveUpAll();
      writeFileSync(PATH, floatBytes(1, 2, 3, 4, ...Array<number>(12).fill(0)));
      for (const [name, offset] of Object.entries({ input_0: 0, output_0: 16, output_1: 32 }))
        expect(await act(transport, "register", name, { key: `/${KEY}`, offset, byte_size: 16 })).toEqual({});
      const request: Asked = {
        inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], parameters: region("input_0", 0, 16) }],
        outputs: [
          { name: "y", parameters: region("output_0", 0, 16) },
          { name: "n", parameters: region("output_1", 0, 8) },
        ],
      };
      for (let i = 0; i < 9; i++) {
        const { error, outputs } = await client.ask(transport, "twice", request);
        expect([error, outputs.map(({ data }) => data.byteLength)]).toEqual([undefined, [0, 0]]);
      }
      expect([...new Float32Array(new Uint8Array(readFileSync(PATH)).buffer, 16, 4)]).toEqual([2, 4, 6, 8]);
      await giveUpAll();
      expect(await act(transport, "status")).toEqual(transport === "http" ? [] : { regions: {} });
      // Its mode "cuda" ends at the first registration, with the reason.
      expect(await act(transport, "status", "", {}, {}, "cuda")).toEqual(transport === "http" ? [] : { regions: {} });
      const handle = transport === "http" ? { raw_handle: { b64: "AAAA" } } : { raw_handle: Buffer.alloc(64) };
      const cuda = { ...handle, device_id: 0, byte_size: 16 };
      expect(await act(transport, "register", "input_0", cuda, {}, "cuda")).toBe("TUTTI_INVALID_INPUT");
    },
  );

  test.each(TRANSPORTS)(
    "what lies in no region, or beyond one, is refused before anything runs (%s)",
    async (transport) => {
      await open({ systemSharedMemory: true });
      for (const [key, size] of [
        ["../etc/passwd", 8],
        ["nobody-has-it", 8],
        [KEY, 65],
        [KEY, 0],
      ] as const)
        expect(await act(transport, "register", "r", { key, byte_size: size })).toBe("TUTTI_INVALID_INPUT");
      expect(await act(transport, "register", "r", { key: KEY, byte_size: 64 })).toEqual({});
      expect(await act(transport, "register", "r", { key: KEY, byte_size: 64 })).toBe("TUTTI_INVALID_INPUT");
      const refused = async (...given: Parameters<typeof asked>): Promise<string | undefined> => {
        const { code, error } = await client.ask(transport, "twice", asked(...given));
        expect(code).toBe("TUTTI_INVALID_INPUT");
        return error;
      };
      expect(await refused(region("q", 0, 16))).toContain('no shared memory region "q"');
      expect(await refused(region("r", 60, 16))).toContain("end beyond the shared memory region");
      expect(await refused(region("r", 0, 16), region("q", 0, 16))).toContain('no shared memory region "q"');
      expect(scene.seen).toEqual([]);
      expect(await refused(region("r", 0, 16), region("r", 0, 8))).toContain("16 bytes is more than the 8");
      expect(await act(transport, "unregister")).toEqual({});
      expect(await refused(region("r", 0, 16))).toContain("no shared memory region");
    },
  );

  const isRoot = process.geteuid?.() === 0;
  test.skipIf(!isRoot).each(TRANSPORTS)("a file of another user becomes no region (%s)", async (transport) => {
    await open({ systemSharedMemory: true });
    chownSync(PATH, 12_345, 12_345);
    expect(await act(transport, "register", "r", { key: KEY, byte_size: 64 })).toBe("TUTTI_FORBIDDEN");
  });

  test.each(TRANSPORTS)("where it wasn't turned on it is refused, naming the flag (%s)", async (transport) => {
    await open({});
    for (const verb of ["register", "unregister", "status"] as const)
      expect(await act(transport, verb, "r", verb === "register" ? { key: KEY, byte_size: 64 } : {})).toBe(
        "TUTTI_FORBIDDEN",
      );
    const { code, error } = await client.ask(transport, "twice", asked(region("r", 0, 16)));
    expect([code, error]).toEqual(["TUTTI_FORBIDDEN", expect.stringContaining("--system-shared-memory")]);
  });

  test.each(TRANSPORTS)("with keys a region is the application's that registered it (%s)", async (transport) => {
    const folder = mkdtempSync(join(tmpdir(), "tutti-shm-keys-"));
    const [shop, camera] = ["shop", "camera"].map((app) => createApiKey(app, { isAdmin: false, expiresAt: undefined }));
    const keys = { version: 1, keys: [shop!.key, camera!.key], quotas: { camera: { bytesInFlight: 1_000 } } };
    writeFileSync(join(folder, "api-keys.json"), JSON.stringify(keys));
    await open({ systemSharedMemory: true, access: { apiKeys: join(folder, "api-keys.json") } });
    const [own, other] = [shop!, camera!].map(({ text }) => ({ authorization: `Bearer ${text}` }));
    const registration = { key: KEY, byte_size: 64 };
    expect(await act(transport, "register", "r", registration)).toBe("TUTTI_UNAUTHENTICATED");
    expect(await act(transport, "register", "r", registration, own)).toEqual({});
    expect(await act(transport, "status", "r", {}, other)).toBe("TUTTI_NOT_FOUND");
    expect((await client.ask(transport, "twice", asked(region("r", 0, 16)), other)).error).toContain(
      "no shared memory",
    );
    expect((await client.ask(transport, "twice", asked(region("r", 0, 16)), own)).error).toBeUndefined();
    expect(await act(transport, "unregister", "", {}, other)).toEqual({});
    expect((await client.ask(transport, "twice", asked(region("r", 0, 16)), own)).error).toBeUndefined();
    // Bytes copied from shared memory count against the application's quota, as a body does.
    writeFileSync(PATH, new Uint8Array(4_096));
    expect(await act(transport, "register", "wide", { key: KEY, byte_size: 4_096 }, other)).toEqual({});
    const wide = { name: "x", datatype: "FP32", shape: [256, 4], parameters: region("wide", 0, 4_096) };
    const refused = await client.ask(transport, "twice", { inputs: [wide] }, other);
    expect([refused.code, refused.error]).toEqual(["TUTTI_TOO_LARGE", expect.stringContaining("1000 bytes here")]);
    rmSync(folder, { recursive: true });
  });
});
